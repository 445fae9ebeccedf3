"""Batches of sentence pairs: a source tensor and a target tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import Batch, Batches, pad, pad_between
from regard.data.direction import Direction
from regard.data.sampling.sampler import BucketSampler, Cost, Rows, packed_cost
from regard.data.store.store import Section, Store
from regard.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Example:
    """One pair as ids: the source with language tag and end, the target with start and end."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class PairBatch(Batch):
    """B pairs: source (B, S) and target (B, T), each with its token mask."""

    source: Tensor
    source_mask: Tensor
    target: Tensor
    target_mask: Tensor

    @property
    def num_targets(self) -> int:
        """Number of target tokens except the first of each row, which is the start token."""
        return int(self.target_mask[:, 1:].sum())

    def _without_targets(self) -> "PairBatch":
        return self._replace(target_mask=torch.zeros_like(self.target_mask))


def collate(examples: Sequence[Example], pad_id: int) -> PairBatch:
    """Pad examples to one batch."""
    source, source_mask = pad([example.source for example in examples], pad_id)
    target, target_mask = pad([example.target for example in examples], pad_id)
    return PairBatch(source, source_mask, target, target_mask)


def pair_batches(
    store: Store,
    tokenizer: Tokenizer,
    directions: Sequence[Direction],
    budget: int,
    seed: int,
    cost: Cost = packed_cost,
) -> Batches[Rows, PairBatch]:
    """Return batches of at most `budget` tokens with the pairs of all directions.

    With several target languages, the source begins with the tag of the target language.
    """
    tagged = len({direction.target for direction in directions}) > 1
    source_sides = [_source_sides(section, directions) for section in store.sections]
    tags = [
        [
            tokenizer.special_id(language) if tagged else -1
            for language in reversed(section.languages)
        ]
        for section in store.sections
    ]
    sampler = BucketSampler(store, source_sides, (1 + tagged, 2), budget, seed, cost)
    tag_of, end = np.array(tags), np.array([tokenizer.end])

    def make(selection: Rows) -> PairBatch:
        target_tags = tag_of[selection.sections, selection.sides, None][:, :tagged]
        start = np.full((len(selection.rows), 1), tokenizer.start)
        sources = store.ids(selection.rows, selection.sides)
        targets = store.ids(selection.rows, 1 - selection.sides)
        return PairBatch(
            *pad_between(target_tags, sources, end, tokenizer.pad),
            *pad_between(start, targets, end, tokenizer.pad),
        )

    return Batches(sampler, make)


def _source_sides(section: Section, directions: Sequence[Direction]) -> list[int]:
    """List the sides of a section that are the source in one of the directions."""
    first, second = section.languages
    candidates = (Direction(first, second), Direction(second, first))
    return [side for side in section.source_sides if candidates[side] in directions]
