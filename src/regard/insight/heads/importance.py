"""Importance of heads: the loss without each head, measured and estimated.

    measured    L(ξ_h = 0) − L                    one pass over the text for each head
    estimated   E_x |∂L(x) / ∂ξ_h|  at ξ = 1      one pass and its gradient for all heads

(Michel et al. 2019, sections 3.2 and 4.1), both per token. A head with a
duplicate has importance 0.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from regard.insight.heads.examples import Examples
from regard.insight.heads.head_masks import duplicates, masked_heads, without
from regard.insight.heads.head_names import Head, attention, attentions, heads_of
from regard.insight.heads.losses import losses, row_losses
from regard.training.reporting.progress import Reporter, silent


class Agreement(NamedTuple):
    """Correlation of two importance scores of the same heads, −1 to 1."""

    pearson: float  # of the values
    spearman: float  # of the ranks


def measured(
    model: nn.Module, examples: Examples, report: Reporter = silent
) -> tuple[float, dict[Head, float]]:
    """Return the loss per token, and its rise without each head."""
    heads = heads_of(model)
    whole = losses(model, examples).mean
    rise = {}
    with report.bar("Masking each head", len(heads), "heads") as advance:
        for head in heads:
            rise[head] = losses(model, examples, without(model, {head})).mean - whole
            advance(1)
    return whole, rise


def estimated(
    model: nn.Module, examples: Examples, removed: Collection[Head] = ()
) -> dict[Head, float]:
    """Return the mean absolute gradient with respect to the mask of each remaining head."""
    device = next(model.parameters()).device
    base = without(model, removed)
    by_attention = attentions(model)
    sums = {
        name: torch.zeros(len(heads), dtype=torch.float64) for name, heads in by_attention.items()
    }
    tokens = 0.0
    for batch in examples.batches():
        rows = len(next(iter(vars(batch).values())))
        # A mask for each row: its gradient is that of a single example.
        head_masks = {
            name: (torch.ones(rows, len(heads), device=device) * base.get(name, 1.0))
            .detach()
            .requires_grad_()
            for name, heads in by_attention.items()
        }
        with torch.enable_grad(), masked_heads(model, head_masks):
            loss, count = row_losses(model, batch.to(device))
            gradients = torch.autograd.grad(loss.sum(), list(head_masks.values()))
        for name, gradient in zip(head_masks, gradients, strict=True):
            sums[name] += gradient.abs().sum(0).double().cpu()
        tokens += float(count.sum())
    left = {head: float(sums[head.module][head.number] / tokens) for head in heads_of(model)}
    free = _replaceable(model, removed)
    return {head: 0.0 if head in free else left[head] for head in left if head not in removed}


def _replaceable(model: nn.Module, removed: Collection[Head]) -> set[Head]:
    """Return the heads that have a remaining duplicate."""
    free = set()
    for name, heads in attentions(model).items():
        first = duplicates(attention(model, name))
        left = [head for head in heads if head not in removed]
        groups = [first[head.number] for head in left]
        free |= {head for head in left if groups.count(first[head.number]) > 1}
    return free


def agreement(first: dict[Head, float], second: dict[Head, float]) -> Agreement:
    one, other = (np.array([scores[head] for head in first]) for scores in (first, second))
    return Agreement(_correlation(one, other), _correlation(_ranks(one), _ranks(other)))


def _correlation(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum() / size) if size else float("nan")


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rank of each value; equal values share their mean rank."""
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[index]
