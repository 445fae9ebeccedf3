"""Attention rollout: shares of the input tokens in each token's state, layer by layer.

The weights of one layer say which states are mixed; from the second layer on, those states are
mixtures already. Both methods follow the mixing from the input, with a residual path.

    rollout    R_l = ½ (A_l + I) R_{l-1}                 A: the mean of the heads
               (Abnar and Zuidema 2020)
    gradient   R_l = R_{l-1} + Ā_l R_{l-1}               Ā: the mean of (∇A ⊙ A)⁺, where ∇A is the
               (Chefer et al. 2021)                      gradient of the output's log-probability

Rows are divided by their sums, to be read as shares. In cross-attention the weights are multiplied
with the shares that the encoder computed for each source token, or with the identity where no
attention computed any.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.insight.forward_passes import AttentionSite, ForwardPass
from regard.insight.packing import Floats, pack_weights
from regard.insight.seen import Seen, as_numpy
from regard.insight.views.base import View, ViewData
from regard.insight.watch import watch

TITLES = {"rollout": "Attention rollout", "gradient": "Gradient-weighted attention"}


@dataclass(frozen=True)
class Rollout:
    """Shares of the input tokens in each token's state after each layer, by one method."""

    method: str  # rollout, gradient
    title: str
    panel: str  # name of the panel with the tokens
    shares: Floats  # (layers, tokens, input tokens); rows sum to 1

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "title": self.title,
            "panel": self.panel,
            "weights": pack_weights(self.shares),
        }


@dataclass(frozen=True)
class Rollouts(ViewData):
    """Rollouts by every method, for every panel."""

    rollouts: tuple[Rollout, ...]

    def to_json(self) -> list[dict[str, Any]]:
        return [rollout.to_json() for rollout in self.rollouts]


class Spec(View):
    title: ClassVar[str] = "Rollout"
    question: ClassVar[str] = "Which input tokens contribute to a state through all layers?"
    order: ClassVar[int] = 50
    max_tokens: ClassVar[int | None] = 512

    def compute(self, run: ForwardPass, seen: Seen) -> Rollouts:
        """Compute both methods for each attention; `seen` has its weights."""
        sites = run.sites
        means = {site.name: seen.by_layer(site.blocks, site.attention).mean(1) for site in sites}
        methods = {
            "rollout": _rollout(sites, means, keep=0.5, add=0.5),
            "gradient": gradient_rollouts(run),
        }
        return Rollouts(
            tuple(
                Rollout(method, TITLES[method], panel, shares)
                for method, by_panel in methods.items()
                for panel, shares in by_panel.items()
            )
        )


def gradient_rollouts(run: ForwardPass) -> dict[str, Floats]:
    """Return for each attention the shares by gradient-weighted attention (L, T, S)."""
    return _rollout(run.sites, _gradient_weighted(run), keep=1.0, add=1.0)


def _rollout(
    sites: Sequence[AttentionSite], layers: dict[str, Floats], keep: float, add: float
) -> dict[str, Floats]:
    """Return for each attention the shares after each of its layers (L, T, S)."""
    shares: dict[str, Floats] = {}
    for site in sites:
        weights = layers[site.name]
        if site.attention == "cross":
            source = shares["encoder"][-1] if "encoder" in shares else np.eye(weights.shape[2])
            mixed = [_normalized((layer @ source).astype(np.float32)) for layer in weights]
            shares[site.name] = np.stack(mixed)
            continue
        current: Floats = np.eye(weights.shape[1], dtype=np.float32)
        after = []
        for layer in weights:
            current = keep * current + add * (layer @ current)
            after.append(_normalized(current))
        shares[site.name] = np.stack(after)
    return shares


def _normalized(rows: Floats) -> Floats:
    total = rows.sum(1, keepdims=True)
    shares: Floats = np.divide(rows, total, out=np.zeros_like(rows), where=total > 0)
    return shares


def _gradient_weighted(run: ForwardPass) -> dict[str, Floats]:
    """Return for each attention the mean over heads of (∇A ⊙ A)⁺: (L, T, S)."""
    with torch.enable_grad(), watch(run.model, {"weights"}) as seen:
        log_prob = run.run().sum()
        names = seen.names()
        weights = [(name, chunk) for name in names for chunk in seen.chunks(name)]
        gradients = torch.autograd.grad(
            log_prob, [chunk for _, chunk in weights], allow_unused=True
        )
    relevance: dict[str, Floats] = {}
    for (name, weight), gradient in zip(weights, gradients, strict=True):
        rows = as_numpy(_positive(weight, gradient)[0])
        relevance[name] = np.concatenate([relevance[name], rows]) if name in relevance else rows
    return {
        site.name: np.stack(
            [
                relevance[name]
                for name in names
                if name.startswith(f"{site.blocks}.") and name.endswith(f".{site.attention}")
            ]
        )
        for site in run.sites
    }


def _positive(weights: Tensor, gradient: Tensor | None) -> Tensor:
    if gradient is None:  # the output does not depend on this layer
        return torch.zeros_like(weights).mean(1)
    return (weights * gradient).clamp(min=0).mean(1)
