"""The documents of a store as passages that a model can take: a row each, long ones as several.

What marks the end of a document is no part of it. Of a document that is too long the passages are
of like length, so that none is a mere rest.
"""

import numpy as np

from regard.data.sampling.sampler import Ints
from regard.data.store.store import Ids, Section, Store
from regard.errors import DataError


class Passages:
    """Rows for a plan; where they are in the store is a small table, two numbers a document."""

    num_texts = 1

    def __init__(self, store: Store, end: int, room: int) -> None:
        """`end` is the piece that ends a document, `room` the most tokens of a passage."""
        rows = np.arange(len(store))
        self._store = store
        self._lengths = store.lengths(rows)[:, 0]
        some = np.flatnonzero(self._lengths)
        self._lengths[some] -= store.lasts(some) == end
        self._counts = -(-self._lengths // room)
        self._ends = np.cumsum(self._counts)
        if not len(self):
            raise DataError(f"{store.path}: there is no text in it.")
        self.longest = int((-(-self._lengths // np.maximum(self._counts, 1))).max())
        self.tokens = (int(self._lengths.sum()),)
        self.sections = [self._section(section) for section in store.sections]

    def _section(self, rows: Section) -> Section:
        """The passages of one source."""
        own = slice(rows.first, rows.first + rows.count)
        first = int(self._counts[: rows.first].sum())
        tokens = (int(self._lengths[own].sum()),)
        return Section(first, int(self._counts[own].sum()), tokens, rows.weight)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def lengths(self, numbers: Ints) -> Ints:
        """Tokens (N, 1) of these passages."""
        _, begin, end = self._places(numbers)
        return (end - begin)[:, None]

    def ids(self, numbers: Ints) -> list[Ids]:
        """These passages: views of the store."""
        rows, begin, end = self._places(numbers)
        texts = self._store.ids(rows, np.zeros_like(rows))
        places = zip(texts, begin.tolist(), end.tolist(), strict=True)
        return [text[first:last] for text, first, last in places]

    def _places(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """The row of each passage, and where in it the passage begins and ends."""
        rows = np.searchsorted(self._ends, numbers, side="right")
        count, length = self._counts[rows], self._lengths[rows]
        part = numbers - (self._ends[rows] - count)
        return rows, part * length // count, (part + 1) * length // count
