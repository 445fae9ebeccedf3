"""How much a head matters: what the loss is without it, measured and estimated.

    measured    L(ξ_h = 0) − L                    one pass over the text for each head
    estimated   E_x |∂L(x) / ∂ξ_h|  at ξ = 1      one pass and its gradient for all heads

(Michel et al. 2019, sections 3.2 and 4.1), both by token. A head whose twin is left matters not.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from regard.insight.heads.examples import Examples
from regard.insight.heads.head_masks import gated, twins, without
from regard.insight.heads.head_names import Head, attention, attentions, heads_of
from regard.insight.heads.losses import losses, row_losses
from regard.training.reporting.progress import Reporter, silent


class Agreement(NamedTuple):
    """How far two judgements of the same heads agree, −1 to 1."""

    pearson: float  # in size
    spearman: float  # in order


def measured(
    model: nn.Module, examples: Examples, report: Reporter = silent
) -> tuple[float, dict[Head, float]]:
    """The loss by token, and how it rises without each head in turn."""
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
    """The mean size of the gradient with respect to the gate of each head that is left."""
    device = next(model.parameters()).device
    base = without(model, removed)
    found = attentions(model)
    sums = {name: torch.zeros(len(heads), dtype=torch.float64) for name, heads in found.items()}
    tokens = 0.0
    for batch in examples.batches():
        rows = len(next(iter(vars(batch).values())))
        # A gate for each row: the gradient then falls apart into those of single examples.
        gates = {
            name: (torch.ones(rows, len(heads), device=device) * base.get(name, 1.0))
            .detach()
            .requires_grad_()
            for name, heads in found.items()
        }
        with torch.enable_grad(), gated(model, gates):
            loss, count = row_losses(model, batch.to(device))
            gradients = torch.autograd.grad(loss.sum(), list(gates.values()))
        for name, gradient in zip(gates, gradients, strict=True):
            sums[name] += gradient.abs().sum(0).double().cpu()
        tokens += float(count.sum())
    left = {head: float(sums[head.module][head.number] / tokens) for head in heads_of(model)}
    free = _spoken_for(model, removed)
    return {head: 0.0 if head in free else left[head] for head in left if head not in removed}


def _spoken_for(model: nn.Module, removed: Collection[Head]) -> set[Head]:
    """Those that have a twin that is left."""
    free = set()
    for name, heads in attentions(model).items():
        first = twins(attention(model, name))
        left = [head for head in heads if head not in removed]
        groups = [first[head.number] for head in left]
        free |= {head for head in left if groups.count(first[head.number]) > 1}
    return free


def agreement(first: dict[Head, float], second: dict[Head, float]) -> Agreement:
    one, other = (np.array([each[head] for head in first]) for each in (first, second))
    return Agreement(_correlation(one, other), _correlation(_ranks(one), _ranks(other)))


def _correlation(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> float:
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one**2).sum() * (other**2).sum()))
    return float((one * other).sum() / size) if size else float("nan")


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The place of each in the order; equals share the mean of theirs."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
