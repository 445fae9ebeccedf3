"""Batches of labeled texts, with or without dependency trees."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import IGNORE_INDEX, Batch, Batches, pad, pad_between
from regard.data.sampling.sampler import BucketSampler, Cost, Rows, packed_cost
from regard.data.store.store import Ids, Store
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.positions.trees import OUTSIDE, Trees


class ClassificationBatch(Batch):
    """Rows with class labels; a subclass declares the fields and the model's inputs.

    Labels are class numbers (B,); where a text may have several, 1 for each class that it has and
    0 for the others (B, classes).
    """

    token_mask: Tensor
    labels: Tensor

    @property
    def num_targets(self) -> int:
        """Number of labels to predict: one for each text, or one for each text and class."""
        return int((self.labels != IGNORE_INDEX).sum())

    @property
    def num_tokens(self) -> int:
        return int(self.token_mask.sum())

    @property
    def inputs(self) -> tuple[Tensor | Trees, ...]:
        """Arguments of the model's forward pass."""
        raise NotImplementedError

    def _without_targets(self) -> "ClassificationBatch":
        return self._replace(labels=torch.full_like(self.labels, IGNORE_INDEX))


@dataclass(frozen=True)
class LabeledBatch(ClassificationBatch):
    """B texts, or text pairs in one row, ids (B, T) between start and end, and their labels."""

    ids: Tensor
    token_mask: Tensor
    labels: Tensor

    @property
    def inputs(self) -> tuple[Tensor | Trees, ...]:
        return self.ids, self.token_mask


@dataclass(frozen=True)
class ParsedBatch(ClassificationBatch):
    """B texts with their dependency trees; start and end tokens are in no tree."""

    ids: Tensor
    words: Tensor  # (B, T): the number of the word that each token is part of
    token_mask: Tensor
    heads: Tensor  # (B, W): the number of the head of each word
    labels: Tensor

    @property
    def inputs(self) -> tuple[Tensor | Trees, ...]:
        # Padding may hold any number, and it must be the number of a word.
        last = self.heads.size(1) - 1
        trees = Trees(self.words.clamp(max=last), self.heads.clamp(0, last))
        return self.ids, self.token_mask, trees


def labeled_batches(
    store: Store,
    tokenizer: Tokenizer,
    budget: int,
    seed: int,
    classes: int | None = None,
    cost: Cost = packed_cost,
) -> Batches[Rows, LabeledBatch]:
    """Return batches of labeled texts; two texts of a record are one row: <s> a </s> b </s>.

    `classes` is the number of classes where a text may have several labels.
    """
    extra = (2, 1)[: store.num_texts]
    sampler = _sampler(store, extra, budget, seed, cost)
    end = np.array([tokenizer.end])

    def make(selection: Rows) -> LabeledBatch:
        start = np.full((len(selection.rows), 1), tokenizer.start)
        texts = store.ids(selection.rows, selection.sides)
        if store.num_texts == 2:
            others = store.ids(selection.rows, selection.sides + 1)
            texts = [np.concatenate((a, end, b)) for a, b in zip(texts, others, strict=True)]
        ids, token_mask = pad_between(start, texts, end, tokenizer.pad)
        return LabeledBatch(ids, token_mask, label_tensor(store.labels(selection.rows), classes))

    return Batches(sampler, make)


def parsed_batches(
    store: Store, tokenizer: Tokenizer, budget: int, seed: int, classes: int | None = None
) -> Batches[Rows, ParsedBatch]:
    """Return batches of labeled texts with their dependency trees."""
    sampler = _sampler(store, (2,), budget, seed, packed_cost)
    end, outside = np.array([tokenizer.end]), np.array([OUTSIDE])

    def make(selection: Rows) -> ParsedBatch:
        start = np.full((len(selection.rows), 1), tokenizer.start)
        texts = store.ids(selection.rows, selection.sides)
        words, heads = store.trees(selection.rows)
        ids, token_mask = pad_between(start, texts, end, tokenizer.pad)
        numbers, _ = pad_between(np.full_like(start, OUTSIDE), words, outside, OUTSIDE)
        labels = label_tensor(store.labels(selection.rows), classes)
        return ParsedBatch(ids, numbers, token_mask, pad(heads, 0)[0], labels)

    return Batches(sampler, make)


def _sampler(
    store: Store, extra: Sequence[int], budget: int, seed: int, cost: Cost
) -> BucketSampler:
    first_side = [(0,)] * len(store.sections)
    return BucketSampler(store, first_side, extra, budget, seed, cost, single_sequence=True)


def label_tensor(rows: Sequence[Sequence[int] | Ids], classes: int | None) -> Tensor:
    """Return the labels of texts with one each (B,), or with some of `classes` (B, classes)."""
    if classes is None:
        return torch.tensor([int(row[0]) for row in rows])
    labels = torch.zeros(len(rows), classes, dtype=torch.long)
    for number, row in enumerate(rows):
        labels[number, torch.tensor([int(label) for label in row], dtype=torch.long)] = 1
    return labels
