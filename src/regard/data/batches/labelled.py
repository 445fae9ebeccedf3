"""Texts with labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batching import UNCOUNTED, Batches, Tensors, every, pad_between
from regard.data.sampling import Cost, RowPlan, Rows, packed
from regard.data.store import Ids, Store
from regard.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class LabelledBatch(Tensors):
    """B texts, or pairs in one row, ids (B, T) between start and end, and their labels.

    Labels are numbers (B); where a text may have several, 1 for those it has (B, classes).
    """

    ids: Tensor
    padding: Tensor
    labels: Tensor

    @property
    def tokens(self) -> int:
        """The labels to be told: one a text, or yes or no for each class."""
        return int((self.labels != UNCOUNTED).sum())

    @property
    def load(self) -> int:
        return int(self.padding.sum())

    def share(self, rank: int, size: int) -> "LabelledBatch":
        ids, padding, labels = (
            every(tensor, rank, size) for tensor in (self.ids, self.padding, self.labels)
        )
        counted = rank < len(self.ids)
        return LabelledBatch(ids, padding, labels if counted else labels.fill_(UNCOUNTED))


def labelled_batches(
    store: Store,
    tokenizer: Tokenizer,
    budget: int,
    seed: int,
    classes: int | None = None,
    cost: Cost = packed,
) -> Batches[Rows, LabelledBatch]:
    """Texts with a label each, or with some of so many `classes`; two texts are read as one row."""
    extra = (2, 1)[: store.sides]  # <s> first </s> second </s>
    plan = RowPlan(store, [(0,)] * len(store.sections), extra, budget, seed, cost, joined=True)
    end = np.array([tokenizer.end])

    def make(picked: Rows) -> LabelledBatch:
        start = np.full((len(picked.rows), 1), tokenizer.start)
        texts = store.ids(picked.rows, picked.sides)
        if store.sides == 2:
            others = store.ids(picked.rows, picked.sides + 1)
            texts = [np.concatenate((a, end, b)) for a, b in zip(texts, others, strict=True)]
        ids, padding = pad_between(start, texts, end, tokenizer.pad)
        return LabelledBatch(ids, padding, label_tensor(store.labels(picked.rows), classes))

    return Batches(plan, make)


def label_tensor(rows: Sequence[Sequence[int] | Ids], classes: int | None) -> Tensor:
    """The labels of texts that have one each (B), or some of so many `classes` (B, classes)."""
    if classes is None:
        return torch.tensor([int(row[0]) for row in rows])
    found = torch.zeros(len(rows), classes, dtype=torch.long)
    for at, row in enumerate(rows):
        found[at, torch.tensor([int(each) for each in row], dtype=torch.long)] = 1
    return found
