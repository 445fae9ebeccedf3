"""Batch samplers: which examples form which batch, in an order of its own for each epoch.

Examples are rows of a store, or windows of its running text. An epoch is divided into pools, and a
pool into batches. A `DataCursor` is three small numbers; a run that is resumed from one gets
exactly the batches that would have come without the interruption.
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

POOL = 250  # batches whose examples are sorted by length together
EPOCH, SOURCE, BATCHES, BEGIN = range(1, 5)  # streams of random numbers, all independent

Ints = npt.NDArray[np.int64]
Cost = Callable[[Ints], Ints]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class DataCursor:
    """Position of the next batch: epoch, pool in the epoch, batch in the pool."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


class BatchSampler(Protocol[T_co]):
    """Selects the examples of the batches of an epoch, pool by pool."""

    @property
    def num_pools(self) -> int:
        """Number of pools in an epoch."""
        ...

    def pool(self, epoch: int, number: int) -> Sequence[T_co]:
        """Return the batches of one pool."""
        ...


def iter_batches(
    sampler: BatchSampler[T_co], cursor: DataCursor
) -> Iterator[tuple[T_co, DataCursor]]:
    """Yield batches without end, each with the cursor behind it.

    Raises DataError where the cursor is not in this data.
    """
    while True:
        in_epoch = cursor.pool < sampler.num_pools
        batches = sampler.pool(cursor.epoch, cursor.pool) if in_epoch else ()
        if cursor.batch >= len(batches):
            raise DataError(
                f"there is no {cursor} in this data: data, batch_tokens or seed are not those of "
                f"the checkpoint; restore them, or start over."
            )
        for number in range(cursor.batch, len(batches) - 1):
            yield batches[number], DataCursor(cursor.epoch, cursor.pool, number + 1)
        epochs, pool = divmod(cursor.pool + 1, sampler.num_pools)
        cursor = DataCursor(cursor.epoch + epochs, pool)
        yield batches[-1], cursor


@dataclass(frozen=True)
class SourceQuota:
    """Contribution of a source to an epoch: examples (rows or windows) in some directions."""

    examples: int
    weight: float | tuple[float, ...] = 1.0  # a tuple: of epoch 0, 1 …, the last of all later ones
    directions: int = 1

    @property
    def weights(self) -> tuple[float, ...]:
        """Weight in each epoch; the last one in all later epochs."""
        return self.weight if isinstance(self.weight, tuple) else (self.weight,)

    def in_epoch(self, epoch: int) -> int:
        """Number of examples in an epoch; with weight < 1 the next epoch continues behind them."""
        weight = self.weights[min(epoch, len(self.weights) - 1)]
        return max(1, round(weight * self.examples)) if self.examples and weight else 0

    def before_epoch(self, epoch: int) -> int:
        """Number of examples in all epochs before one."""
        listed = min(epoch, len(self.weights))
        return sum(map(self.in_epoch, range(listed))) + (epoch - listed) * self.in_epoch(epoch)


class EpochOrder:
    """Random order of all examples of an epoch."""

    def __init__(self, quotas: Sequence[SourceQuota], seed: int) -> None:
        self._quotas, self._seed = quotas, seed
        self._examples = np.array([quota.examples for quota in quotas])
        self._directions = np.array([quota.directions for quota in quotas])
        # A source is also shuffled in itself: half of it must not be its first half.
        self._permutations = [
            Permutation(quota.examples, seed, number, SOURCE) for number, quota in enumerate(quotas)
        ]

    @property
    def fewest(self) -> int:
        """Number of examples in the smallest epoch."""
        return min(map(self.size, range(max(len(quota.weights) for quota in self._quotas))))

    def size(self, epoch: int) -> int:
        """Number of examples in an epoch."""
        return int((self._in_epoch(epoch) * self._directions).sum())

    def slice(self, epoch: int, start: int, stop: int) -> tuple[Ints, Ints, Ints]:
        """Return source, number within the source, and direction of the examples start … stop."""
        in_epoch = self._in_epoch(epoch)
        counts = in_epoch * self._directions
        ends = np.cumsum(counts)
        indices = Permutation(int(ends[-1]), self._seed, epoch, EPOCH)(np.arange(start, stop))
        source = np.searchsorted(ends, indices, side="right")
        direction, turn = np.divmod(indices - (ends - counts)[source], in_epoch[source])
        before = np.array([quota.before_epoch(epoch) for quota in self._quotas])
        example = (before[source] + turn) % self._examples[source]
        for number, permutation in enumerate(self._permutations):
            example[source == number] = permutation(example[source == number])
        return source, example, direction

    def _in_epoch(self, epoch: int) -> Ints:
        return np.array([quota.in_epoch(epoch) for quota in self._quotas])


def packed_cost(lengths: Ints) -> Ints:
    """Return the number of tokens (N,) of the first 1, 2, 3 … rows of lengths (N, texts)."""
    total: Ints = lengths.sum(axis=1).cumsum()
    return total


def padded_cost(lengths: Ints) -> Ints:
    """Do the same with all rows padded to the longest."""
    total: Ints = np.maximum.accumulate(lengths).sum(axis=1) * np.arange(1, len(lengths) + 1)
    return total


class Rows(NamedTuple):
    """Rows of a batch: section, row, and which of its texts comes first (the source)."""

    sections: Ints
    rows: Ints
    sides: Ints


class RowTable(Protocol):
    """A table of token rows: a store, or the passages of one."""

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
    """Groups rows of similar length into batches of at most `budget` tokens."""

    def __init__(
        self,
        store: RowTable,
        source_sides: Sequence[Sequence[int]],
        extra: Sequence[int],
        budget: int,
        seed: int,
        cost: Cost = packed_cost,
        single_sequence: bool = False,
    ) -> None:
        """Prepare the order of examples.

        `source_sides` lists for each section the texts that may come first; `extra` is the number
        of special tokens added to the first text, the second …; with `single_sequence` all texts
        of a row are one sequence. Raises DataError where the longest row exceeds `budget`.
        """
        longest = store.longest + sum(extra)
        if longest > budget:
            raise DataError(
                f"the longest example has {longest:,} tokens and a batch holds {budget:,}: raise "
                f"training.batch_tokens, or lower model.max_length to leave such examples out."
            )
        self._store, self._budget = store, budget
        self._extra: Ints = np.array(extra)
        self._seed, self._cost, self._single_sequence = seed, cost, single_sequence
        self._firsts = np.array([section.first for section in store.sections])
        most = max(map(len, source_sides))
        self._source_sides = np.array(
            [[*sides, *[0] * (most - len(sides))] for sides in source_sides]
        )
        quotas = [
            SourceQuota(section.count, section.weight, len(sides))
            for section, sides in zip(store.sections, source_sides, strict=True)
        ]
        self._order = EpochOrder(quotas, seed)
        tokens = self._order.fewest * (sum(store.tokens) / len(store) + sum(extra))
        self.num_pools = max(1, round(tokens / budget / POOL))

    def pool(self, epoch: int, number: int) -> list[Rows]:
        size = self._order.size(epoch)
        ends = (size * at // self.num_pools for at in (number, number + 1))
        section, example, direction = self._order.slice(epoch, *ends)
        rows, sides = self._firsts[section] + example, self._source_sides[section, direction]
        lengths = self._lengths(rows, sides)
        order = _sort_by_length(lengths)
        slices = split_into_batches(lengths[order], self._budget, self._cost)
        batches = [order[part] for part in slices]
        shuffled = Permutation(len(batches), self._seed, epoch, number, BATCHES).all()
        selections = [batches[at] for at in shuffled.tolist()]
        return [Rows(section[some], rows[some], sides[some]) for some in selections]

    def _lengths(self, rows: Ints, sides: Ints) -> Ints:
        """Return the lengths (N, texts) of the examples, the text that comes first in column 0."""
        num_texts = self._store.num_texts
        order = (sides[:, None] + np.arange(num_texts)) % num_texts
        lengths: Ints = np.take_along_axis(self._store.lengths(rows), order, axis=1)
        lengths = lengths + self._extra
        return lengths.sum(axis=1, keepdims=True) if self._single_sequence else lengths


def _sort_by_length(lengths: Ints) -> Ints:
    """Sort by the last text, then by the first, alternately ascending and descending.

    Alternately, so that where the length of the last text increases by one, the first does not
    jump from long to short: half of all padding was in the batches across such jumps.
    """
    first, last = lengths[:, 0], lengths[:, -1]
    return np.lexsort((np.where(last % 2 == 0, first, -first), last))


def split_into_batches(lengths: Ints, budget: int, cost: Cost) -> Iterator[slice]:
    """Split sorted rows into consecutive batches, each as large as the budget allows."""
    start = 0
    while start < len(lengths):
        # Rows are sorted by their last text: none of the following is shorter.
        reach = start + budget // int(lengths[start, -1]) + 1
        size = int(np.searchsorted(cost(lengths[start:reach]), budget, side="right"))
        yield slice(start, start + size)
        start += size


class EpochSelection(NamedTuple, Generic[T]):
    """The examples of a batch, and the epoch of the batch."""

    epoch: int
    examples: T


class WithEpoch(Generic[T]):
    """A sampler whose batches carry their epoch, for random numbers that differ by epoch."""

    def __init__(self, sampler: BatchSampler[T]) -> None:
        self._sampler = sampler

    @property
    def num_pools(self) -> int:
        return self._sampler.num_pools

    def pool(self, epoch: int, number: int) -> list[EpochSelection[T]]:
        return [EpochSelection(epoch, examples) for examples in self._sampler.pool(epoch, number)]


class Windows(NamedTuple):
    """Windows of a batch: section, and the token of the section where each begins."""

    sections: Ints
    starts: Ints


class WindowSampler:
    """Consecutive windows of running text.

    The text of a section is treated as a ring, and each epoch begins at another token of it, so
    that a model sees the same tokens at other positions of its context.
    """

    def __init__(self, store: Store, context: int, budget: int, seed: int) -> None:
        """Prepare windows of `context` tokens; raises ConfigError if one exceeds `budget`."""
        if budget < context:
            raise ConfigError(
                f"training.batch_tokens: a batch of {budget:,} tokens cannot hold a window of "
                f"{context:,}: raise it, or lower model.max_length."
            )
        self._context, self._size, self._seed = context, budget // context, seed
        self._tokens = np.array([section.tokens[0] for section in store.sections])
        quotas = [
            SourceQuota(ceil(section.tokens[0] / context), section.weight)
            for section in store.sections
        ]
        self._order = EpochOrder(quotas, seed)
        self.num_pools = ceil(self._order.fewest / self._size / POOL)

    def pool(self, epoch: int, number: int) -> list[Windows]:
        begin, end = number * POOL * self._size, (number + 1) * POOL * self._size
        if number == self.num_pools - 1:
            end = self._order.size(epoch)
        section, example, _ = self._order.slice(epoch, begin, end)
        offset = Permutation(2**32, self._seed, epoch, BEGIN)(np.zeros(1, np.int64))
        starts = (offset + example * self._context) % self._tokens[section]
        return [
            Windows(section[at : at + self._size], starts[at : at + self._size])
            for at in range(0, len(starts), self._size)
        ]
