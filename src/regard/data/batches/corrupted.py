"""Batches of texts with hidden tokens to predict: masked tokens, or spans that are cut out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import IGNORE_INDEX, Batch, Batches, pad, pad_between
from regard.data.batches.masking import Masking
from regard.data.batches.pairs import PairBatch
from regard.data.batches.spans import SpanCorruptor
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import BucketSampler, EpochSelection, Rows, WithEpoch
from regard.data.store.store import Ids
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """B masked texts, ids (B, T); labels (B, T) are the original ids at masked positions."""

    ids: Tensor
    labels: Tensor
    token_mask: Tensor

    @property
    def masked_positions(self) -> Tensor:
        """Mask (B, T), True where a token is to be predicted."""
        return (self.labels != IGNORE_INDEX) & self.token_mask

    @property
    def num_targets(self) -> int:
        return int(self.masked_positions.sum())

    @property
    def num_tokens(self) -> int:
        return int(self.token_mask.sum())

    def _without_targets(self) -> "MaskedBatch":
        return self._replace(labels=torch.full_like(self.labels, IGNORE_INDEX))


def masked_batches(
    passages: Passages, tokenizer: Tokenizer, masking: Masking, budget: int, seed: int
) -> Batches[EpochSelection[Rows], MaskedBatch]:
    """Return batches of passages between start and end, with another mask in each epoch."""
    sampler = BucketSampler(passages, [(0,)] * len(passages.sections), (2,), budget, seed)

    def make(selection: EpochSelection[Rows]) -> MaskedBatch:
        rows = selection.examples.rows
        batch = mask(passages.ids(rows), tokenizer, masking, (seed, selection.epoch), rows)
        if not batch.num_targets:
            raise DataError(
                "a batch has no token that can be masked, because all of them are unknown to the "
                "tokenizer: use a tokenizer that was trained on such text."
            )
        return batch

    return Batches(WithEpoch(sampler), make)


def mask(
    texts: Sequence[Ids], tokenizer: Tokenizer, masking: Masking, key: tuple[int, ...], numbers: Ids
) -> MaskedBatch:
    """Put texts between start and end and mask them; `key` and a text's number fix its mask."""
    start, end = np.full((len(texts), 1), tokenizer.start), np.array([tokenizer.end])
    ids, token_mask = pad_between(start, texts, end, tokenizer.pad)
    masked_ids, masked_positions = masking(ids.numpy(), token_mask.numpy(), key, numbers)
    labels = ids.where(torch.from_numpy(masked_positions), IGNORE_INDEX)
    return MaskedBatch(torch.from_numpy(masked_ids), labels, token_mask)


def span_batches(
    passages: Passages,
    tokenizer: Tokenizer,
    corruptor: SpanCorruptor,
    max_length: int,
    budget: int,
    seed: int,
) -> Batches[EpochSelection[Rows], PairBatch]:
    """Return batches of passages with other spans cut out in each epoch.

    Source and target have at most `max_length` tokens each.
    """
    sampler = BucketSampler(passages, [(0,)] * len(passages.sections), (4,), budget, seed)

    def make(selection: EpochSelection[Rows]) -> PairBatch:
        rows, key = selection.examples.rows, (seed, selection.epoch)
        return corrupt_spans(passages.ids(rows), tokenizer, corruptor, max_length, key, rows)

    return Batches(WithEpoch(sampler), make)


def corrupt_spans(
    texts: Sequence[Ids],
    tokenizer: Tokenizer,
    corruptor: SpanCorruptor,
    max_length: int,
    key: tuple[int, ...],
    numbers: Ids,
) -> PairBatch:
    """Cut spans out of texts; `key` and a text's number fix its spans."""
    corrupted = [
        corruptor(ids, max_length, key, number)
        for ids, number in zip(texts, numbers.tolist(), strict=True)
    ]
    return PairBatch(
        *pad([text.source for text in corrupted], tokenizer.pad),
        *pad([text.target for text in corrupted], tokenizer.pad),
    )
