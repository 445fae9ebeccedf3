"""What a model is trained to do: functions over (model, batch) that give a loss.

A loss is the sum over the tokens to be predicted, so that whoever puts batches together can
normalise by the tokens of the whole.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches.base import IGNORE_INDEX
from regard.data.batches.pairs import PairBatch
from regard.training.cross_entropy import cross_entropy


class Writer(Protocol):
    """A model that ends in a linear layer over the vocabulary."""

    @property
    def output(self) -> nn.Linear: ...


class Answerer(Writer, Protocol):
    """A model that reads a source and writes after it."""

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor: ...


def seq2seq_loss(model: Answerer, batch: PairBatch, smoothing: float) -> Tensor:
    """Cross-entropy over the words of the target, given the source and those before them."""
    words, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1], token_mask)
    return lm_head_loss(model, states, words, token_mask, smoothing)


@torch.no_grad()
def mean_loss(model: Answerer, batches: Iterable[PairBatch], device: torch.device) -> float:
    """The same without smoothing, by word, on all of some pairs."""
    total, tokens = 0.0, 0
    for batch in batches:
        total += float(seq2seq_loss(model, batch.to(device), smoothing=0.0))
        tokens += batch.num_targets
    return total / tokens


def lm_head_loss(
    model: Writer, states: Tensor, words: Tensor, token_mask: Tensor, smoothing: float
) -> Tensor:
    """Cross-entropy, summed over the real ones of words (…), given states (…, D)."""
    if bool(token_mask.all()):
        chosen, wanted = states.flatten(0, -2), words.flatten()
    else:
        chosen, wanted = (
            states[token_mask],
            words[token_mask],
        )  # padding costs no product with the vocabulary
    output = model.output
    if output.bias is None and chosen.device.type == "cpu" and not torch.is_autocast_enabled("cpu"):
        return cross_entropy(chosen, output.weight, wanted, smoothing)
    return F.cross_entropy(output(chosen), wanted, label_smoothing=smoothing, reduction="sum")


def classification_loss(
    logits: Tensor, labels: Tensor, smoothing: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """The loss of each text (B,): of its one label, labels (B), or of each class (B, classes).

    Cross-entropy over the classes in the one case; in the other, binary cross-entropy summed over
    them. What is UNCOUNTED costs nothing. `weights` (classes) multiply what a class's texts cost.
    """
    if labels.dim() == 1:
        return F.cross_entropy(
            logits,
            labels,
            weights,
            ignore_index=IGNORE_INDEX,
            label_smoothing=smoothing,
            reduction="none",
        )
    counted = labels != IGNORE_INDEX
    wanted = labels.clamp_min(0).to(logits) * (1 - smoothing) + smoothing / 2
    losses = F.binary_cross_entropy_with_logits(
        logits, wanted, pos_weight=weights, reduction="none"
    )
    return (losses * counted).sum(1)
