"""Pairs to translate: a source and its target, each in a tensor of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.data.batches.base import Batch, Batches, pad, pad_between, strided_rows
from regard.data.config import Direction
from regard.data.sampling.sampler import BucketSampler, Cost, Rows, packed
from regard.data.store.store import Section, Store
from regard.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True)
class Example:
    """One pair as ids: the source with its tag and end, the target with start and end."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class PairBatch(Batch):
    """B pairs: source (B, S), target (B, T)."""

    source: Tensor
    source_mask: Tensor
    target: Tensor
    target_mask: Tensor

    @property
    def num_targets(self) -> int:
        """Of the target, all real ones but the first of each row."""
        return int(self.target_mask[:, 1:].sum())

    def shard(self, rank: int, size: int) -> "PairBatch":
        source, source_mask, target, target_mask = (
            strided_rows(tensor, rank, size)
            for tensor in (self.source, self.source_mask, self.target, self.target_mask)
        )
        return PairBatch(source, source_mask, target, target_mask & (rank < len(self.source)))


def collate(examples: Sequence[Example], pad_id: int) -> PairBatch:
    source, source_mask = pad([example.source for example in examples], pad_id)
    target, target_mask = pad([example.target for example in examples], pad_id)
    return PairBatch(source, source_mask, target, target_mask)


def pair_batches(
    store: Store,
    tokenizer: Tokenizer,
    directions: Sequence[Direction],
    budget: int,
    seed: int,
    cost: Cost = packed,
) -> Batches[Rows, PairBatch]:
    """Pairs in all directions. Only a model with several languages to produce is told which."""
    tagged = len({way.target for way in directions}) > 1
    ways = [_ways(section, directions) for section in store.sections]
    tags = [
        [tokenizer.special_id(tongue) if tagged else -1 for tongue in reversed(section.languages)]
        for section in store.sections
    ]
    plan = BucketSampler(store, ways, (1 + tagged, 2), budget, seed, cost)
    tag_of, end = np.array(tags), np.array([tokenizer.end])

    def make(picked: Rows) -> PairBatch:
        asked = tag_of[picked.sections, picked.sides, None][:, :tagged]
        start = np.full((len(picked.rows), 1), tokenizer.start)
        sources = store.ids(picked.rows, picked.sides)
        targets = store.ids(picked.rows, 1 - picked.sides)
        return PairBatch(
            *pad_between(asked, sources, end, tokenizer.pad),
            *pad_between(start, targets, end, tokenizer.pad),
        )

    return Batches(plan, make)


def _ways(section: Section, directions: Sequence[Direction]) -> list[int]:
    """The sides of a section that are translated from."""
    first, second = section.languages
    offered = (Direction(first, second), Direction(second, first))
    return [side for side, way in enumerate(offered) if way in directions]
