"""Documents of a store as passages that fit in the model: one row each, long ones as several.

The end token of a document is not part of its passages. A document that is too long is cut into
passages of nearly equal length, so that none is a short remainder.
"""

import numpy as np

from regard.data.sampling.sampler import Ints
from regard.data.store.store import Ids, Section, Store
from regard.errors import DataError


class Passages:
    """Rows for a `BucketSampler`, located in the store by two numbers for each document."""

    num_texts = 1

    def __init__(self, store: Store, end: int, max_length: int) -> None:
        """`end` is the id that ends a document, `max_length` the most tokens of a passage."""
        rows = np.arange(len(store))
        self._store = store
        self._lengths = store.lengths(rows)[:, 0]
        nonempty = np.flatnonzero(self._lengths)
        self._lengths[nonempty] -= store.last_ids(nonempty) == end
        self._counts = -(-self._lengths // max_length)
        self._ends = np.cumsum(self._counts)
        if not len(self):
            raise DataError(f"{store.path}: there is no text in it.")
        self.longest = int((-(-self._lengths // np.maximum(self._counts, 1))).max())
        self.tokens = (int(self._lengths.sum()),)
        self.sections = [self._section(section) for section in store.sections]

    def _section(self, rows: Section) -> Section:
        """Return the section of passages of one source."""
        documents = slice(rows.first, rows.first + rows.count)
        first = int(self._counts[: rows.first].sum())
        tokens = (int(self._lengths[documents].sum()),)
        return Section(first, int(self._counts[documents].sum()), tokens, rows.weight)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def lengths(self, numbers: Ints) -> Ints:
        """Return the number of tokens (N, 1) of these passages."""
        _, begin, end = self._locate(numbers)
        return (end - begin)[:, None]

    def ids(self, numbers: Ints) -> list[Ids]:
        """Return the ids of these passages as views of the store."""
        rows, begin, end = self._locate(numbers)
        documents = self._store.ids(rows, np.zeros_like(rows))
        spans = zip(documents, begin.tolist(), end.tolist(), strict=True)
        return [document[first:last] for document, first, last in spans]

    def _locate(self, numbers: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the row of each passage, and where in the row it begins and ends."""
        rows = np.searchsorted(self._ends, numbers, side="right")
        count, length = self._counts[rows], self._lengths[rows]
        part = numbers - (self._ends[rows] - count)
        return rows, part * length // count, (part + 1) * length // count
