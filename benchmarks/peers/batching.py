"""Batches of pairs of similar length within a budget of tokens, for peers that are plain loops.

Examples are shuffled, sorted by length within pools of about a hundred batches, and divided into
batches, which are shuffled again. There is little padding, and every epoch has other batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from common import Example
from torch import Tensor

POOL = 100  # batches whose examples are sorted together


@dataclass(frozen=True)
class Batch:
    """source (B, S), target (B, T), padded on the right; source_mask is True at real tokens."""

    source: Tensor
    source_mask: Tensor
    target: Tensor
    source_tokens: int
    target_tokens: int  # predicted tokens: all except the start of each row

    @property
    def cells(self) -> int:
        return self.source.numel() + self.target.numel()

    @property
    def real_tokens(self) -> int:
        return self.source_tokens + self.target_tokens + len(self.target)


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Return the rows as one padded tensor (B, T) and its token mask."""
    lengths = np.array([len(row) for row in rows])
    token_mask = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(token_mask.shape, pad_id, dtype=np.int64)
    ids[token_mask] = np.concatenate(rows)
    return torch.from_numpy(ids), torch.from_numpy(token_mask)


def collate(examples: Sequence[Example], pad_id: int) -> Batch:
    source, source_mask = pad([example.source for example in examples], pad_id)
    target, _ = pad([example.target for example in examples], pad_id)
    return Batch(
        source,
        source_mask,
        target,
        source_tokens=sum(len(example.source) for example in examples),
        target_tokens=sum(len(example.target) - 1 for example in examples),
    )


def batches(examples: Sequence[Example], budget: int, seed: int, pad_id: int) -> Iterator[Batch]:
    """Yield batches without end, epoch after epoch."""
    lengths = np.array([(len(example.source), len(example.target)) for example in examples])
    longest = int(lengths.sum(axis=1).max())
    if longest > budget:
        raise ValueError(f"the longest pair has {longest} tokens and a batch holds {budget}")
    pool = max(1, int(POOL * budget / lengths.sum(axis=1).mean()))
    for epoch in count():
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(lengths))
        rows: list[list[int]] = []
        for start in range(0, len(order), pool):
            chunk = order[start : start + pool]
            # By target, then by source, so that the rows of a batch have similar lengths in both.
            chunk = chunk[np.lexsort((lengths[chunk, 0], lengths[chunk, 1]))]
            rows.extend(_divide(chunk.tolist(), lengths, budget))
        for index in random.permutation(len(rows)):
            yield collate([examples[row] for row in rows[index]], pad_id)


def _divide(ordered: list[int], lengths: np.ndarray, budget: int) -> Iterator[list[int]]:
    """Yield maximal batches: rows × (longest source + longest target) ≤ budget."""
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
