"""Batches: examples as tensors, padded on the right to the longest of their batch.

Masks of padding are True where a token is real. Several processes share a batch by rows; all have
to take the same steps, so where there are fewer rows than processes the last ones get a row in
which nothing is to be predicted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, repeat
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data.sampling.sampler import BatchSampler, DataCursor, iter_batches
from regard.data.store.store import Ids

IGNORE_INDEX = -100  # a label that no loss counts


@dataclass(frozen=True)
class Batch:
    """What every batch can do."""

    @property
    def num_targets(self) -> int:
        """How much is to be predicted: what a loss is divided by."""
        raise NotImplementedError

    @property
    def num_tokens(self) -> int:
        """How many tokens go through the model: what keeps those busy who share a batch."""
        return self.num_targets

    def to(self, device: torch.device) -> Self:
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))

    def shard(self, rank: int, size: int) -> Self:
        """The rows of one of `size` processes."""
        raise NotImplementedError


def strided_rows(tensor: Tensor, rank: int, size: int) -> Tensor:
    """Every size-th row from `rank` on; the first where there is none."""
    return tensor[rank::size] if rank < len(tensor) else tensor[:1].clone()


def pad(rows: Sequence[Sequence[int] | Ids], pad_id: int) -> tuple[Tensor, Tensor]:
    """Rows as one tensor (B, T), and where it is real."""
    return _lay(rows, np.array([len(row) for row in rows]), pad_id)


def pad_between(before: Ids, rows: Sequence[Ids], after: Ids, pad_id: int) -> tuple[Tensor, Tensor]:
    """The same, with the ids in a row of `before` (B, N) ahead of each row and `after` behind."""
    pieces = chain.from_iterable(zip(before, rows, repeat(after), strict=False))
    lengths = np.array([len(row) for row in rows]) + before.shape[1] + len(after)
    return _lay(list(pieces), lengths, pad_id)


def _lay(pieces: Sequence[Sequence[int] | Ids], lengths: Ids, pad_id: int) -> tuple[Tensor, Tensor]:
    """Pieces one after the other in rows of these lengths."""
    token_mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(token_mask.shape, pad_id)
    ids[token_mask] = np.concatenate(pieces)
    return torch.from_numpy(ids), torch.from_numpy(token_mask)


P = TypeVar("P")


B = TypeVar("B", bound=Batch)


class Batches(Generic[P, B]):
    """Batches without end: a plan says of what, and `make` puts each together."""

    def __init__(self, plan: BatchSampler[P], make: Callable[[P], B]) -> None:
        self._plan, self._make = plan, make

    def since(self, position: DataCursor) -> Iterator[tuple[B, DataCursor]]:
        """Batches from a position on, each with the position after it."""
        for picked, after in iter_batches(self._plan, position):
            yield self._make(picked), after

    def epoch(self, number: int = 0) -> Iterator[B]:
        """The batches of one epoch."""
        for batch, after in self.since(DataCursor(number)):
            yield batch
            if after.epoch > number:
                return
