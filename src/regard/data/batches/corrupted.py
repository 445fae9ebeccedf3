"""Texts of which a part is hidden, to be guessed: masked, or with spans cut out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import IGNORE_INDEX, Batch, Batches, pad, pad_between, strided_rows
from regard.data.batches.masking import Masking
from regard.data.batches.pairs import PairBatch
from regard.data.batches.spans import Spans
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import BucketSampler, EpochSelection, Rows, WithEpoch
from regard.data.store.store import Ids
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """B texts with masks in them, ids (B, T), and what is to be guessed there: wanted (B, T)."""

    ids: Tensor
    labels: Tensor
    token_mask: Tensor

    @property
    def masked_positions(self) -> Tensor:
        """(B, T), True where something is to be guessed."""
        return (self.labels != IGNORE_INDEX) & self.token_mask

    @property
    def num_targets(self) -> int:
        return int(self.masked_positions.sum())

    @property
    def num_tokens(self) -> int:
        return int(self.token_mask.sum())

    def shard(self, rank: int, size: int) -> "MaskedBatch":
        ids, wanted, token_mask = (
            strided_rows(tensor, rank, size) for tensor in (self.ids, self.labels, self.token_mask)
        )
        counted = rank < len(self.ids)
        return MaskedBatch(ids, wanted if counted else wanted.fill_(IGNORE_INDEX), token_mask)


def masked_batches(
    passages: Passages, tokenizer: Tokenizer, masking: Masking, budget: int, seed: int
) -> Batches[EpochSelection[Rows], MaskedBatch]:
    """Passages between start and end, masked anew in each epoch."""
    plan = BucketSampler(passages, [(0,)] * len(passages.sections), (2,), budget, seed)

    def make(dated: EpochSelection[Rows]) -> MaskedBatch:
        rows = dated.picked.rows
        batch = mask(passages.ids(rows), tokenizer, masking, (seed, dated.epoch), rows)
        if not batch.num_targets:
            raise DataError(
                "there is a batch in which no piece can be hidden, for the tokenizer knows none of "
                "its text: is it the right one, and trained on such text?"
            )
        return batch

    return Batches(WithEpoch(plan), make)


def mask(
    texts: Sequence[Ids], tokenizer: Tokenizer, masking: Masking, key: tuple[int, ...], numbers: Ids
) -> MaskedBatch:
    """Texts between start and end, masked as the key and their numbers will have it."""
    start, end = np.full((len(texts), 1), tokenizer.start), np.array([tokenizer.end])
    whole, token_mask = pad_between(start, texts, end, tokenizer.pad)
    hidden, chosen = masking(whole.numpy(), token_mask.numpy(), key, numbers)
    wanted = whole.where(torch.from_numpy(chosen), IGNORE_INDEX)
    return MaskedBatch(torch.from_numpy(hidden), wanted, token_mask)


def span_batches(
    passages: Passages, tokenizer: Tokenizer, spans: Spans, longest: int, budget: int, seed: int
) -> Batches[EpochSelection[Rows], PairBatch]:
    """Passages with spans cut out, others in each epoch; neither side is over the `longest`."""
    plan = BucketSampler(passages, [(0,)] * len(passages.sections), (4,), budget, seed)

    def make(dated: EpochSelection[Rows]) -> PairBatch:
        rows = dated.picked.rows
        return corrupt_spans(
            passages.ids(rows), tokenizer, spans, longest, (seed, dated.epoch), rows
        )

    return Batches(WithEpoch(plan), make)


def corrupt_spans(
    texts: Sequence[Ids],
    tokenizer: Tokenizer,
    spans: Spans,
    longest: int,
    key: tuple[int, ...],
    numbers: Ids,
) -> PairBatch:
    """Texts with spans cut out, as the key and their numbers will have it."""
    each = zip(texts, numbers.tolist(), strict=True)
    torn = [spans(ids, longest, key, number) for ids, number in each]
    return PairBatch(
        *pad([text.source for text in torn], tokenizer.pad),
        *pad([text.target for text in torn], tokenizer.pad),
    )
