"""Batches of examples of like length, at most so many tokens each, in an order fixed by a seed.

Rows are padded on the right to the longest of their batch. Since rows of like length go together,
little is padding; since lengths are shuffled within a pool, batches differ from epoch to epoch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.errors import DataError

POOL = 100  # batches whose examples are sorted together

Lengths = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """One pair as ids: the source with its tag and end, the target with start and end."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Batch:
    """B examples: source (B, S), target (B, T); padding is True where a token is real."""

    source: Tensor
    source_padding: Tensor
    target: Tensor
    target_padding: Tensor

    @property
    def tokens(self) -> int:
        """Target tokens to be predicted: all real ones but the first of each row."""
        return int(self.target_padding[:, 1:].sum())

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            self.source.to(device),
            self.source_padding.to(device),
            self.target.to(device),
            self.target_padding.to(device),
        )


def pad(rows: Sequence[Sequence[int]], filler: int) -> tuple[Tensor, Tensor]:
    """Rows as one tensor (B, T), and where it is real, True = a real token."""
    lengths = np.array([len(row) for row in rows])
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, filler)
    ids[real] = np.concatenate(rows)
    return torch.from_numpy(ids), torch.from_numpy(real)


def collate(examples: Sequence[Example], filler: int) -> Batch:
    source, source_padding = pad([example.source for example in examples], filler)
    target, target_padding = pad([example.target for example in examples], filler)
    return Batch(source, source_padding, target, target_padding)


def plan(lengths: Lengths, budget: int, seed: int, epoch: int) -> list[list[int]]:
    """One epoch as lists of example indices, each list at most `budget` tokens when padded.

    lengths (N, 2) are those of source and target.
    """
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(lengths))
    pool = max(1, int(POOL * budget / lengths.sum(axis=1).mean()))
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        chunk = order[start : start + pool]
        # By target, then source: rows of a batch agree in both, so that little of it is padding.
        chunk = chunk[np.lexsort((lengths[chunk, 0], lengths[chunk, 1]))]
        batches.extend(_cut(chunk.tolist(), lengths, budget))
    return [batches[index] for index in random.permutation(len(batches))]


def _cut(ordered: Sequence[int], lengths: Lengths, budget: int) -> Iterator[list[int]]:
    batch: list[int] = []
    longest = np.zeros(2, dtype=np.int64)
    for index in ordered:
        grown = np.maximum(longest, lengths[index])
        if batch and grown.sum() * (len(batch) + 1) > budget:
            yield batch
            batch, grown = [], lengths[index]
        batch.append(index)
        longest = grown
    if batch:
        yield batch


def batches(examples: Sequence[Example], budget: int, seed: int, filler: int) -> Iterator[Batch]:
    """Batches without end, epoch after epoch, the order of each its own."""
    lengths = np.array([(len(example.source), len(example.target)) for example in examples])
    longest = int(lengths.sum(axis=1).max())
    if longest > budget:
        raise DataError(
            f"the longest pair has {longest} tokens and a batch holds {budget}: raise "
            f"training.batch_tokens or remove the pair."
        )
    return (
        collate([examples[index] for index in indices], filler)
        for epoch in count()
        for indices in plan(lengths, budget, seed, epoch)
    )
