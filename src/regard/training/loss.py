"""Losses: functions of a model and a batch, and scores of predicted tokens.

A loss is the sum over the tokens to predict, so that it can be divided by the tokens of all batches
and processes of an update.
"""

from collections.abc import Iterable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batches.base import IGNORE_INDEX
from regard.data.batches.pairs import PairBatch
from regard.evaluation.tokens import TokenCounts
from regard.training.cross_entropy import cross_entropy


class HasLMHead(Protocol):
    """A model that ends in a linear layer over the vocabulary."""

    @property
    def output(self) -> nn.Linear: ...


class Seq2SeqModel(HasLMHead, Protocol):
    """A model of a target given a source."""

    def states(
        self, source: Tensor, source_mask: Tensor, target: Tensor, needed: Tensor | None = None
    ) -> Tensor: ...


def seq2seq_loss(model: Seq2SeqModel, batch: PairBatch, smoothing: float) -> Tensor:
    """Return the cross-entropy of the target tokens given the source and earlier target tokens."""
    labels, token_mask = batch.target[:, 1:], batch.target_mask[:, 1:]
    states = model.states(batch.source, batch.source_mask, batch.target[:, :-1], token_mask)
    return lm_head_loss(model, states, labels, token_mask, smoothing)


@torch.no_grad()
def mean_loss(model: Seq2SeqModel, batches: Iterable[PairBatch], device: torch.device) -> float:
    """Return the loss per token without smoothing, over all batches."""
    total, tokens = 0.0, 0
    for batch in batches:
        total += float(seq2seq_loss(model, batch.to(device), smoothing=0.0))
        tokens += batch.num_targets
    return total / tokens


def lm_head_loss(
    model: HasLMHead, states: Tensor, labels: Tensor, token_mask: Tensor, smoothing: float
) -> Tensor:
    """Return the cross-entropy, summed over the labels (…) where `token_mask`, of states (…, D)."""
    if bool(token_mask.all()):
        states, labels = states.flatten(0, -2), labels.flatten()
    else:  # padding costs no product with the vocabulary
        states, labels = states[token_mask], labels[token_mask]
    output = model.output
    if output.bias is None and states.device.type == "cpu":
        return cross_entropy(states, output.weight, labels, smoothing)
    return F.cross_entropy(output(states), labels, label_smoothing=smoothing, reduction="sum")


def classification_loss(
    logits: Tensor, labels: Tensor, smoothing: float = 0.0, weights: Tensor | None = None
) -> Tensor:
    """Return the loss of each text (B,).

    With one label a text, labels (B,), it is the cross-entropy over the classes; with several,
    labels (B, classes), the binary cross-entropy summed over them. Labels that are IGNORE_INDEX are
    left out. `weights` (classes,) multiply the loss of each class.
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
    counts = labels != IGNORE_INDEX
    targets = labels.clamp_min(0).to(logits) * (1 - smoothing) + smoothing / 2
    losses = F.binary_cross_entropy_with_logits(
        logits, targets, pos_weight=weights, reduction="none"
    )
    return (losses * counts).sum(1)


class TokenMetrics:
    """Running totals of predicted tokens, for loss, perplexity and accuracy."""

    def __init__(self) -> None:
        self.nats, self.right, self.tokens = 0.0, 0, 0

    def add(self, logits: Tensor, labels: Tensor) -> None:
        """Add predictions: logits (N, V) of labels (N,)."""
        self.nats += float(F.cross_entropy(logits.float(), labels, reduction="sum"))
        self.right += int((logits.argmax(-1) == labels).sum())
        self.tokens += len(labels)

    def scores(self) -> dict[str, float]:
        """Return the value of every token metric, by name."""
        return TokenCounts(self.nats, self.right, self.tokens).scores()
