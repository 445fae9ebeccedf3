"""Which examples come when: each epoch in an order of its own, in pools that are cut into batches.

Examples are rows of a store, or windows of its running text. Where training stands in this order is
three small numbers; to go on from there gives exactly what would have come without a pause.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from regard.data.sampling.counter_rng import Permutation
from regard.data.store.store import Section, Store
from regard.errors import ConfigError, DataError

POOL = 250  # batches whose examples are sorted together
EPOCH, SOURCE, BATCHES, BEGIN = range(1, 5)  # what is shuffled: no two alike by chance

Ints = npt.NDArray[np.int64]
Cost = Callable[[Ints], Ints]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class DataCursor:
    """Which batch comes next: its epoch, its pool in it, its number in the pool."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


class BatchSampler(Protocol[T_co]):
    """What makes up the batches of an epoch, pool by pool."""

    @property
    def pools(self) -> int: ...

    def pool(self, epoch: int, number: int) -> Sequence[T_co]: ...


def iter_batches(plan: BatchSampler[T_co], start: DataCursor) -> Iterator[tuple[T_co, DataCursor]]:
    """Batches without end, each with the position after it."""
    while True:
        batches = plan.pool(start.epoch, start.pool) if start.pool < plan.pools else ()
        if start.batch >= len(batches):
            raise DataError(
                f"there is no {start} in this data: data, batch_tokens or seed are not those that "
                f"it was saved with; put them back, or start anew."
            )
        for number in range(start.batch, len(batches) - 1):
            yield batches[number], DataCursor(start.epoch, start.pool, number + 1)
        epochs, pool = divmod(start.pool + 1, plan.pools)
        start = DataCursor(start.epoch + epochs, pool)
        yield batches[-1], start


@dataclass(frozen=True)
class SourceQuota:
    """What a source brings to an epoch: units (rows or windows), each in one way or more."""

    units: int
    weight: float = 1.0
    ways: int = 1

    @property
    def shown(self) -> int:
        """Units in an epoch; where these are not all, the next epoch goes on with the others."""
        return max(1, round(self.weight * self.units)) if self.units else 0


class EpochOrder:
    """All that an epoch shows, in random order."""

    def __init__(self, shares: Sequence[SourceQuota], seed: int) -> None:
        self._seed = seed
        self._units = np.array([share.units for share in shares])
        self._shown = np.array([share.shown for share in shares])
        examples = np.array([share.shown * share.ways for share in shares])
        self._ends = np.cumsum(examples)
        self._starts = self._ends - examples
        # A source is shuffled in itself as well: half of it is not to be its first half.
        self._within = [
            Permutation(share.units, seed, number, SOURCE) for number, share in enumerate(shares)
        ]

    def __len__(self) -> int:
        return int(self._ends[-1])

    def stretch(self, epoch: int, start: int, stop: int) -> tuple[Ints, Ints, Ints]:
        """Of the examples there: the source of each, which unit of it, and in which way."""
        places = Permutation(len(self), self._seed, epoch, EPOCH)(np.arange(start, stop))
        source = np.searchsorted(self._ends, places, side="right")
        way, turn = np.divmod(places - self._starts[source], self._shown[source])
        unit = (epoch * self._shown[source] + turn) % self._units[source]
        for number, shuffle in enumerate(self._within):
            unit[source == number] = shuffle(unit[source == number])
        return source, unit, way


def packed(lengths: Ints) -> Ints:
    """The tokens of the first row, the first two, the first three … (N, sides) without padding."""
    total: Ints = lengths.sum(axis=1).cumsum()
    return total


def padded(lengths: Ints) -> Ints:
    """The same where rows are padded to the longest."""
    total: Ints = np.maximum.accumulate(lengths).sum(axis=1) * np.arange(1, len(lengths) + 1)
    return total


class Rows(NamedTuple):
    """A batch: which rows, of which sections, and which of their sides comes first."""

    sections: Ints
    rows: Ints
    sides: Ints


class Table(Protocol):
    """What has rows: a store, or what is made of one."""

    @property
    def sections(self) -> Sequence[Section]: ...

    @property
    def num_texts(self) -> int: ...

    @property
    def longest(self) -> int: ...

    @property
    def tokens(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def lengths(self, rows: Ints) -> Ints: ...


class BucketSampler:
    """Rows of like length go together, up to so many tokens."""

    def __init__(
        self,
        store: Table,
        ways: Sequence[Sequence[int]],
        extra: Sequence[int],
        budget: int,
        seed: int,
        cost: Cost = packed,
        joined: bool = False,
    ) -> None:
        """`ways` are the sides that each section may begin with; `extra` are tokens that come to
        those of each side, in the order of the example; `joined` sides are one row in a batch."""
        longest = store.longest + sum(extra)
        if longest > budget:
            raise DataError(
                f"the longest example has {longest:,} tokens and a batch holds {budget:,}: raise "
                f"training.batch_tokens, or lower model.max_length to leave such examples out."
            )
        self._store, self._budget = store, budget
        self._extra: Ints = np.array(extra)
        self._seed, self._cost, self._joined = seed, cost, joined
        self._firsts = np.array([section.first for section in store.sections])
        most = max(map(len, ways))
        self._ways = np.array([[*way, *[0] * (most - len(way))] for way in ways])
        shares = [
            SourceQuota(section.count, section.weight, len(way))
            for section, way in zip(store.sections, ways, strict=True)
        ]
        self._order = EpochOrder(shares, seed)
        tokens = len(self._order) * (sum(store.tokens) / len(store) + sum(extra))
        self.pools = max(1, round(tokens / budget / POOL))

    def pool(self, epoch: int, number: int) -> list[Rows]:
        ends = (len(self._order) * at // self.pools for at in (number, number + 1))
        section, unit, way = self._order.stretch(epoch, *ends)
        rows, sides = self._firsts[section] + unit, self._ways[section, way]
        lengths = self._lengths(rows, sides)
        order = _alike(lengths)
        batches = [order[each] for each in cut(lengths[order], self._budget, self._cost)]
        shuffled = Permutation(len(batches), self._seed, epoch, number, BATCHES).all()
        chosen = [batches[at] for at in shuffled.tolist()]
        return [Rows(section[each], rows[each], sides[each]) for each in chosen]

    def _lengths(self, rows: Ints, sides: Ints) -> Ints:
        """(N, sides) of the examples, the side that comes first first."""
        turned = (sides[:, None] + np.arange(self._store.num_texts)) % self._store.num_texts
        lengths: Ints = np.take_along_axis(self._store.lengths(rows), turned, axis=1)
        lengths = lengths + self._extra
        return lengths.sum(axis=1, keepdims=True) if self._joined else lengths


def _alike(lengths: Ints) -> Ints:
    """By the last side, then by the first, up and down in turn: neighbours agree in both.

    In turn, so that where one length of the last side gives way to the next, the first does not
    leap from long to short: half of all padding stood in the batches that straddle such a leap.
    """
    first, last = lengths[:, 0], lengths[:, -1]
    return np.lexsort((np.where(last % 2 == 0, first, -first), last))


def cut(lengths: Ints, budget: int, cost: Cost) -> Iterator[slice]:
    """Rows one after the other into batches, each as large as the budget allows."""
    start = 0
    while start < len(lengths):
        # Rows are in order of their last side: from here on none has less of it.
        reach = start + budget // int(lengths[start, -1]) + 1
        size = int(np.searchsorted(cost(lengths[start:reach]), budget, side="right"))
        yield slice(start, start + size)
        start += size


class EpochSelection(NamedTuple, Generic[T]):
    """A batch and the epoch it is of."""

    epoch: int
    picked: T


class WithEpoch(Generic[T]):
    """A plan whose batches know their epoch: what is drawn for them is drawn anew in each."""

    def __init__(self, plan: BatchSampler[T]) -> None:
        self._plan = plan

    @property
    def pools(self) -> int:
        return self._plan.pools

    def pool(self, epoch: int, number: int) -> list[EpochSelection[T]]:
        return [EpochSelection(epoch, picked) for picked in self._plan.pool(epoch, number)]


class Windows(NamedTuple):
    """A batch of windows: of which section, and at which of its tokens each begins."""

    sections: Ints
    starts: Ints


class WindowSampler:
    """Windows of running text, each beginning where another ends.

    The text of a section is taken for a ring, and each epoch begins somewhere else in it, so that
    a model meets the same words at other places of its context.
    """

    def __init__(self, store: Store, context: int, budget: int, seed: int) -> None:
        if budget < context:
            raise ConfigError(
                f"training.batch_tokens: a batch of {budget:,} tokens cannot hold a window of "
                f"{context:,}: raise it, or lower model.max_length."
            )
        self._context, self._size, self._seed = context, budget // context, seed
        self._tokens = np.array([section.tokens[0] for section in store.sections])
        shares = [
            SourceQuota(ceil(section.tokens[0] / context), section.weight)
            for section in store.sections
        ]
        self._order = EpochOrder(shares, seed)
        self.pools = ceil(len(self._order) / self._size / POOL)

    def pool(self, epoch: int, number: int) -> list[Windows]:
        begin = number * POOL * self._size
        end = min(begin + POOL * self._size, len(self._order))
        section, unit, _ = self._order.stretch(epoch, begin, end)
        begins = Permutation(2**32, self._seed, epoch, BEGIN)(np.zeros(1, np.int64))
        starts = (begins + unit * self._context) % self._tokens[section]
        return [
            Windows(section[at : at + self._size], starts[at : at + self._size])
            for at in range(0, len(starts), self._size)
        ]
