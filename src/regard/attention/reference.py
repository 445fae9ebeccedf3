"""The equation (Vaswani et al. 2017, equation 1), and the oracle for every faster path.

    α_ij = softmax_j(q_i · k_j / √K + b_ij)  over the j that i may look at
    o_i  = Σ_j α_ij v_j

A soft look-up: a table matches a query to one key and returns its value; here a query matches all
keys, softly, and the answer is the average of the values under those weights.

Shapes: B batch, T queries, S keys, H heads, K key size.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.base import ALL, Attention, AttentionSpec
from regard.attention.masks import View
from regard.positions.base import InAttention, Sizes


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The answers (…, T, K) and the weights (…, T, S). `visible` is True where i may look at j."""
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.size(-1)) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    return average(scores, v, visible)


def average(scores: Tensor, v: Tensor, visible: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The values averaged by the softmax of scores (…, T, S), and those weights."""
    if visible is None:
        weights = scores.softmax(-1)
    else:
        # The lowest finite score, not −∞: a row with nothing to see must give zeros in both
        # directions, and softmax over −∞ alone is NaN whose gradient no later mask removes.
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1).masked_fill(~visible, 0.0)
    return weights @ v, weights


def explain(
    q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention
) -> tuple[Tensor, Tensor]:
    """The same in one view with one kind of position: what `Attention.explain` promises."""
    bias = position.bias(q, view.queries, view.keys)
    output, weights = attend(q, k, v, view.visible, bias)
    moved = position.values(weights, view.queries, view.keys)
    return output if moved is None else output + moved, weights


def scores(q: Tensor, k: Tensor, view: View, position: InAttention) -> Tensor:
    """What `Attention.scores` promises."""
    found = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    bias = position.bias(q, view.queries, view.keys)
    found = found if bias is None else found + bias
    return found if view.visible is None else found.masked_fill(~view.visible, float("-inf"))


class Reference(Attention):
    """Full attention by the equation as it is written; slower than `fused`, and transparent."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention) -> Tensor:
        return explain(q, k, v, view, position)[0]

    def explain(
        self, q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        return explain(q, k, v, view, position)

    def scores(self, q: Tensor, k: Tensor, view: View, position: InAttention) -> Tensor:
        return scores(q, k, view, position)


class Spec(AttentionSpec):
    """attention: reference"""

    honours: ClassVar[frozenset[str]] = ALL

    def build(self, sizes: Sizes) -> Attention:
        return Reference()
