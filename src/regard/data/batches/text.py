"""AnyText text in windows: each token but the first of a row is to be predicted."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import Batch, Batches, pad, strided_rows
from regard.data.sampling.sampler import Windows, WindowSampler
from regard.data.store.store import Ids, Store


@dataclass(frozen=True)
class TextBatch(Batch):
    """B windows of running text, ids (B, T + 1): each token but the first is to be predicted."""

    ids: Tensor
    token_mask: Tensor

    @property
    def num_targets(self) -> int:
        return int(self.token_mask[:, 1:].sum())

    def shard(self, rank: int, size: int) -> "TextBatch":
        token_mask = strided_rows(self.token_mask, rank, size) & (rank < len(self.ids))
        return TextBatch(strided_rows(self.ids, rank, size), token_mask)


@dataclass(frozen=True)
class DocumentMaskedBatch(Batch):
    """The same where no word looks out of its document. The end of one begins the next."""

    ids: Tensor
    token_mask: Tensor
    end: Tensor  # (B,), the id of it

    @property
    def documents(self) -> Tensor:
        """The document that each token is read in, by its number in the row: (B, T + 1)."""
        return (self.ids == self.end[:, None]).cumsum(1)

    @property
    def num_targets(self) -> int:
        return int(self.token_mask[:, 1:].sum())

    def shard(self, rank: int, size: int) -> "DocumentMaskedBatch":
        token_mask = strided_rows(self.token_mask, rank, size) & (rank < len(self.ids))
        return DocumentMaskedBatch(
            strided_rows(self.ids, rank, size), token_mask, strided_rows(self.end, rank, size)
        )


AnyTextBatch = TextBatch | DocumentMaskedBatch


def text_batches(
    store: Store, context: int, budget: int, seed: int, end: int | None = None
) -> Batches[Windows, AnyTextBatch]:
    """Windows of `context` tokens and the one that follows, `budget` tokens in all.

    Documents are kept apart where the id is given that they end with.
    """
    firsts = np.cumsum([0, *(section.tokens[0] for section in store.sections)]).tolist()

    def make(picked: Windows) -> AnyTextBatch:
        places = zip(picked.sections.tolist(), picked.starts.tolist(), strict=True)
        rows = [
            _around(store, firsts[at], firsts[at + 1], firsts[at] + start, context + 1)
            for at, start in places
        ]
        ids = torch.from_numpy(np.stack(rows).astype(np.int64))
        return _running(ids, torch.ones_like(ids, dtype=torch.bool), end)

    return Batches(WindowSampler(store, context, budget, seed), make)


def _around(store: Store, first: int, end: int, start: int, length: int) -> Ids:
    """Tokens of a section from `start` on; after its end comes its beginning."""
    here = store.stream(start, min(length, end - start))
    if len(here) == length:
        return here
    return np.concatenate((here, _around(store, first, end, first, length - len(here))))


def _running(ids: Tensor, token_mask: Tensor, end: int | None) -> AnyTextBatch:
    if end is None:
        return TextBatch(ids, token_mask)
    return DocumentMaskedBatch(ids, token_mask, torch.full((len(ids),), end))


def eval_windows(
    store: Store, context: int, budget: int, pad_id: int, end: int | None = None
) -> Iterator[AnyTextBatch]:
    """AnyText text to score on: every token but the very first is predicted, and just once."""
    total, rows = store.tokens[0], max(1, budget // context)
    starts = range(0, total - 1, context)
    for at in range(0, len(starts), rows):
        windows = [
            store.stream(start, min(context + 1, total - start)) for start in starts[at : at + rows]
        ]
        yield _running(*pad(windows, pad_id), end)
