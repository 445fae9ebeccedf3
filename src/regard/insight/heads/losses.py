"""Losses by row for every kind of model: −Σ log p of the labels.

Losses are summed by row, so that rows can be resampled for confidence intervals.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches.corrupted import MaskedBatch
from regard.data.batches.labeled import LabeledBatch
from regard.data.batches.pairs import PairBatch
from regard.data.batches.text import TextBatch
from regard.insight.heads.examples import AnyBatch, Examples
from regard.insight.heads.head_masks import HeadMasks, masked_heads
from regard.models.encoder import Encoder
from regard.training.loss import classification_loss

Numbers = npt.NDArray[np.float64]


class Losses(NamedTuple):
    """The loss of each row, and the number of tokens it is summed over."""

    rows: Numbers
    tokens: Numbers

    @property
    def mean(self) -> float:
        """The loss per token."""
        return float(self.rows.sum() / self.tokens.sum())


def has_loss(model: nn.Module) -> bool:
    """Return False for an encoder, which predicts nothing."""
    return not isinstance(model, Encoder)


def run(model: Any, batch: AnyBatch) -> None:
    """Run the model on a batch, for its hooks."""
    if isinstance(batch, PairBatch):
        model.states(batch.source, batch.source_mask, batch.target[:, :-1])
    elif isinstance(batch, TextBatch):
        model.states(batch.ids[:, :-1])
    else:
        model(batch.ids, batch.token_mask)


def row_losses(model: Any, batch: AnyBatch) -> tuple[Tensor, Tensor]:
    """Return the loss and the number of tokens of each row, (B,) each."""
    if isinstance(batch, LabeledBatch):
        logits = model(batch.ids, batch.token_mask)
        return classification_loss(logits, batch.labels), torch.ones(len(logits))
    if isinstance(batch, PairBatch):
        words, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
        states = model.states(batch.source, batch.source_mask, batch.target[:, :-1])[token_mask]
    elif isinstance(batch, MaskedBatch):
        words, token_mask = batch.labels, batch.masked_positions
        states = model.states(batch.ids, batch.token_mask, token_mask)
    else:
        words, token_mask = batch.ids[:, 1:], batch.token_mask[:, 1:]
        states = model.states(batch.ids[:, :-1])[token_mask]
    by_token = F.cross_entropy(model.output(states), words[token_mask], reduction="none")
    by_row = torch.zeros(len(words), dtype=by_token.dtype, device=by_token.device)
    owner = torch.arange(len(words), device=token_mask.device)[:, None].expand_as(token_mask)[
        token_mask
    ]
    return by_row.index_add(0, owner, by_token), token_mask.sum(1)


@torch.inference_mode()
def losses(model: nn.Module, examples: Examples, head_masks: HeadMasks | None = None) -> Losses:
    """Return the losses of all examples, with masks on the heads if given."""
    device = next(model.parameters()).device
    rows, tokens = [], []
    with masked_heads(model, head_masks or {}):
        for batch in examples.batches():
            here, count = row_losses(model, batch.to(device))
            rows.append(here.double().cpu().numpy())
            tokens.append(count.double().cpu().numpy())
    return Losses(np.concatenate(rows), np.concatenate(tokens))
