"""Texts with labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import IGNORE_INDEX, Batch, Batches, pad, pad_between, strided_rows
from regard.data.sampling.sampler import BucketSampler, Cost, Rows, packed
from regard.data.store.store import Ids, Store
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.positions.trees import OUTSIDE, Trees


@dataclass(frozen=True)
class LabeledBatch(Batch):
    """B texts, or pairs in one row, ids (B, T) between start and end, and their labels.

    Labels are numbers (B); where a text may have several, 1 for those it has (B, classes).
    """

    ids: Tensor
    token_mask: Tensor
    labels: Tensor

    @property
    def num_targets(self) -> int:
        """The labels to be told: one a text, or yes or no for each class."""
        return int((self.labels != IGNORE_INDEX).sum())

    @property
    def num_tokens(self) -> int:
        return int(self.token_mask.sum())

    @property
    def read(self) -> tuple[Tensor, Tensor]:
        """What a model is given of it."""
        return self.ids, self.token_mask

    def shard(self, rank: int, size: int) -> "LabeledBatch":
        ids, token_mask, labels = (
            strided_rows(tensor, rank, size) for tensor in (self.ids, self.token_mask, self.labels)
        )
        counted = rank < len(self.ids)
        return LabeledBatch(ids, token_mask, labels if counted else labels.fill_(IGNORE_INDEX))


@dataclass(frozen=True)
class ParsedBatch(Batch):
    """The same of texts with their trees, one a row. Start and end stand outside of them."""

    ids: Tensor
    words: Tensor  # (B, T): the word that each id is part of
    token_mask: Tensor
    heads: Tensor  # (B, W): the head of each word
    labels: Tensor

    @property
    def num_targets(self) -> int:
        return int((self.labels != IGNORE_INDEX).sum())

    @property
    def num_tokens(self) -> int:
        return int(self.token_mask.sum())

    @property
    def read(self) -> tuple[Tensor, Tensor, Trees]:
        # Whoever puts rows together may fill them up with anything, and it must name a word.
        last = self.heads.size(1) - 1
        trees = Trees(self.words.clamp(max=last), self.heads.clamp(0, last))
        return self.ids, self.token_mask, trees

    def shard(self, rank: int, size: int) -> "ParsedBatch":
        ids, words, token_mask, heads, labels = (
            strided_rows(tensor, rank, size)
            for tensor in (self.ids, self.words, self.token_mask, self.heads, self.labels)
        )
        if rank >= len(self.ids):
            labels.fill_(IGNORE_INDEX)
        return ParsedBatch(ids, words, token_mask, heads, labels)


def labeled_batches(
    store: Store,
    tokenizer: Tokenizer,
    budget: int,
    seed: int,
    classes: int | None = None,
    cost: Cost = packed,
) -> Batches[Rows, LabeledBatch]:
    """Texts with a label each, or with some of so many `classes`; two texts are read as one row."""
    extra = (2, 1)[: store.num_texts]  # <s> first </s> second </s>
    plan = BucketSampler(
        store, [(0,)] * len(store.sections), extra, budget, seed, cost, joined=True
    )
    end = np.array([tokenizer.end])

    def make(picked: Rows) -> LabeledBatch:
        start = np.full((len(picked.rows), 1), tokenizer.start)
        texts = store.ids(picked.rows, picked.sides)
        if store.num_texts == 2:
            others = store.ids(picked.rows, picked.sides + 1)
            texts = [np.concatenate((a, end, b)) for a, b in zip(texts, others, strict=True)]
        ids, token_mask = pad_between(start, texts, end, tokenizer.pad)
        return LabeledBatch(ids, token_mask, label_tensor(store.labels(picked.rows), classes))

    return Batches(plan, make)


def parsed_batches(
    store: Store, tokenizer: Tokenizer, budget: int, seed: int, classes: int | None = None
) -> Batches[Rows, ParsedBatch]:
    """Texts with their trees, each with a label, or with some of so many `classes`."""
    plan = BucketSampler(
        store, [(0,)] * len(store.sections), (2,), budget, seed, packed, joined=True
    )
    end, outside = np.array([tokenizer.end]), np.array([OUTSIDE])

    def make(picked: Rows) -> ParsedBatch:
        start = np.full((len(picked.rows), 1), tokenizer.start)
        texts = store.ids(picked.rows, picked.sides)
        words, heads = store.trees(picked.rows)
        ids, token_mask = pad_between(start, texts, end, tokenizer.pad)
        numbers, _ = pad_between(np.full_like(start, OUTSIDE), words, outside, OUTSIDE)
        labels = label_tensor(store.labels(picked.rows), classes)
        return ParsedBatch(ids, numbers, token_mask, pad(heads, 0)[0], labels)

    return Batches(plan, make)


def label_tensor(rows: Sequence[Sequence[int] | Ids], classes: int | None) -> Tensor:
    """The labels of texts that have one each (B), or some of so many `classes` (B, classes)."""
    if classes is None:
        return torch.tensor([int(row[0]) for row in rows])
    found = torch.zeros(len(rows), classes, dtype=torch.long)
    for at, row in enumerate(rows):
        found[at, torch.tensor([int(each) for each in row], dtype=torch.long)] = 1
    return found
