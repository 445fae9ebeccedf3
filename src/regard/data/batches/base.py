"""Base class of batches: examples as tensors, padded on the right to the longest of their batch.

A token mask is True at real tokens and False at padding. Data-parallel processes split a batch by
rows. All processes must take the same steps, so where there are fewer rows than processes, each of
the last ones gets a row without targets, which adds nothing to the loss.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, repeat
from typing import Generic, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.padding import fill_rows, pad_rows
from regard.data.sampling.sampler import BatchSampler, DataCursor, iter_batches
from regard.data.store.store import Ids

IGNORE_INDEX = -100  # a label that is excluded from the loss, as in torch


@dataclass(frozen=True)
class Batch:
    """Base class of all batches; every field is a tensor whose first dimension is the batch."""

    @property
    def num_targets(self) -> int:
        """Number of predictions that the loss is a sum over."""
        raise NotImplementedError

    @property
    def num_tokens(self) -> int:
        """Number of tokens that the model computes, the measure of the work in this batch."""
        return self.num_targets

    def to(self, device: torch.device) -> Self:
        """Return the batch with all tensors on `device`."""
        return type(self)(*(getattr(self, field.name).to(device) for field in fields(self)))

    def shard(self, rank: int, size: int) -> Self:
        """Return the rows of process `rank` of `size`; a row without targets if there are none."""
        tensors = [getattr(self, field.name) for field in fields(self)]
        shard = type(self)(*(strided_rows(tensor, rank, size) for tensor in tensors))
        return shard if rank < len(tensors[0]) else shard._without_targets()

    def _without_targets(self) -> Self:
        """Return the batch with nothing to predict."""
        raise NotImplementedError

    def _replace(self, **tensors: Tensor) -> Self:
        return type(self)(**{**vars(self), **tensors})


def strided_rows(tensor: Tensor, rank: int, size: int) -> Tensor:
    """Return every size-th row from row `rank` on, or a copy of the first row if there is none."""
    return tensor[rank::size] if rank < len(tensor) else tensor[:1].clone()


def pad(rows: Sequence[Sequence[int] | Ids], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return rows of ids as one tensor (B, T), and its token mask (B, T)."""
    ids, token_mask = pad_rows(rows, pad_id)
    return torch.from_numpy(ids), torch.from_numpy(token_mask)


def pad_between(before: Ids, rows: Sequence[Ids], after: Ids, pad_id: int) -> tuple[Tensor, Tensor]:
    """Do the same with the ids before[i] (B, N) in front of row i and `after` (M,) behind it."""
    chunks = chain.from_iterable(zip(before, rows, repeat(after), strict=False))
    lengths = np.array([len(row) for row in rows]) + before.shape[1] + len(after)
    ids, token_mask = fill_rows(list(chunks), lengths, pad_id)
    return torch.from_numpy(ids), torch.from_numpy(token_mask)


S = TypeVar("S")
B = TypeVar("B", bound=Batch)


class Batches(Generic[S, B]):
    """An endless sequence of batches: the sampler selects examples, `collate` makes the batch."""

    def __init__(self, sampler: BatchSampler[S], collate: Callable[[S], B]) -> None:
        self._sampler, self._collate = sampler, collate

    def iter_from(self, cursor: DataCursor) -> Iterator[tuple[B, DataCursor]]:
        """Yield batches from a cursor on, each with the cursor behind it."""
        for selection, after in iter_batches(self._sampler, cursor):
            yield self._collate(selection), after

    def per_epoch(self) -> int:
        """Number of batches in an epoch, estimated from its first pool."""
        return self._sampler.num_pools * len(self._sampler.pool(0, 0))

    def epochs(self, cursor: DataCursor) -> float:
        """Number of epochs before a cursor."""
        batches = len(self._sampler.pool(cursor.epoch, cursor.pool)) if cursor.batch else 1
        return cursor.epoch + (cursor.pool + cursor.batch / batches) / self._sampler.num_pools

    def epoch(self, number: int = 0) -> Iterator[B]:
        """Yield the batches of one epoch."""
        for batch, after in self.iter_from(DataCursor(number)):
            yield batch
            if after.epoch > number:
                return
