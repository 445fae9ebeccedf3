"""Batches of running text in windows: every token except the first of a row is predicted."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.base import Batch, Batches, pad
from regard.data.sampling.sampler import Windows, WindowSampler
from regard.data.store.store import Ids, Store


class _WindowBatch(Batch):
    """Windows of text; a subclass declares the fields `ids` (B, T + 1) and `token_mask`."""

    ids: Tensor
    token_mask: Tensor

    @property
    def num_targets(self) -> int:
        return int(self.token_mask[:, 1:].sum())

    def _without_targets(self) -> "_WindowBatch":
        return self._replace(token_mask=torch.zeros_like(self.token_mask))


@dataclass(frozen=True)
class TextBatch(_WindowBatch):
    """B windows of running text, ids (B, T + 1): each token but the first is predicted."""

    ids: Tensor
    token_mask: Tensor


@dataclass(frozen=True)
class DocumentMaskedBatch(_WindowBatch):
    """Windows in which tokens attend only to their own document.

    The end token of a document is the first token of the next one.
    """

    ids: Tensor
    token_mask: Tensor
    end: Tensor  # (B,): the id of the end token

    @property
    def documents(self) -> Tensor:
        """Number of the document of each token within its row: (B, T + 1)."""
        return (self.ids == self.end[:, None]).cumsum(1)


AnyTextBatch = TextBatch | DocumentMaskedBatch


def text_batches(
    store: Store, context: int, budget: int, seed: int, end: int | None = None
) -> Batches[Windows, AnyTextBatch]:
    """Return batches of windows of `context` tokens and the token after, `budget` tokens in all.

    With `end`, the id of the end token, attention is masked to the token's own document.
    """
    firsts = np.cumsum([0, *(section.tokens[0] for section in store.sections)]).tolist()

    def make(selection: Windows) -> AnyTextBatch:
        starts = zip(selection.sections.tolist(), selection.starts.tolist(), strict=True)
        rows = [
            _window(store, firsts[number], firsts[number + 1], firsts[number] + start, context + 1)
            for number, start in starts
        ]
        ids = torch.from_numpy(np.stack(rows).astype(np.int64))
        return _text_batch(ids, torch.ones_like(ids, dtype=torch.bool), end)

    return Batches(WindowSampler(store, context, budget, seed), make)


def _window(store: Store, first: int, end: int, start: int, length: int) -> Ids:
    """Read tokens of the section [first, end) from `start` on, wrapping around at its end."""
    ids = store.stream(start, min(length, end - start))
    if len(ids) == length:
        return ids
    return np.concatenate((ids, _window(store, first, end, first, length - len(ids))))


def _text_batch(ids: Tensor, token_mask: Tensor, end: int | None) -> AnyTextBatch:
    if end is None:
        return TextBatch(ids, token_mask)
    return DocumentMaskedBatch(ids, token_mask, torch.full((len(ids),), end))


def eval_windows(
    store: Store, context: int, budget: int, pad_id: int, end: int | None = None
) -> Iterator[AnyTextBatch]:
    """Yield the text in order for evaluation: each token but the very first is a target once."""
    total, rows = store.tokens[0], max(1, budget // context)
    starts = range(0, total - 1, context)
    for at in range(0, len(starts), rows):
        windows = [
            store.stream(start, min(context + 1, total - start)) for start in starts[at : at + rows]
        ]
        yield _text_batch(*pad(windows, pad_id), end)
