"""The equation (Vaswani et al. 2017, equation 1), and the oracle for every faster path.

    α_ij = softmax_j(q_i · k_j / √K + b_ij)  over the j that i may attend to
    o_i  = Σ_j α_ij v_j

A soft look-up: a table matches a query to one key and returns its value; here a query matches every
key to some degree, and the output is the average of the values under those weights.

Shapes: B batch, T queries, S keys, H heads, K head size.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor

from regard.attention.base import ALL_CAPABILITIES, Attention, AttentionSpec
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention, Sizes


def dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the outputs (…, T, K) and the weights (…, T, S). `visible`: True = may attend."""
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.size(-1)) if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    return weighted_average(scores, v, visible)


def weighted_average(
    scores: Tensor, v: Tensor, visible: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the values averaged by the softmax of scores (…, T, S), and these weights."""
    if visible is None:
        weights = scores.softmax(-1)
    else:
        # The lowest finite score, not −∞: a query without keys must give zeros, forward and
        # backward, and the softmax of −∞ alone is NaN, whose gradient no later mask removes.
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1).masked_fill(~visible, 0.0)
    return weights @ v, weights


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
) -> tuple[Tensor, Tensor]:
    """Return outputs and weights under a mask and a position: `Attention.attend_with_weights`."""
    bias = position.bias(q, mask.queries, mask.keys)
    output, weights = dot_product_attention(q, k, v, mask.dense, bias)
    added = position.values(weights, mask.queries, mask.keys)
    return output if added is None else output + added, weights


def masked_scores(q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
    """Return the input of the softmax under a mask and a position: `Attention.scores`."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    bias = position.bias(q, mask.queries, mask.keys)
    scores = scores if bias is None else scores + bias
    return scores if mask.dense is None else scores.masked_fill(~mask.dense, float("-inf"))


class DenseAttention(Attention):
    """Base of kinds whose weights are those of the reference under a mask, maybe a narrower one."""

    def narrow(self, mask: AttentionMask) -> AttentionMask:
        """Return the mask that this kind applies: `mask`, or fewer keys of it."""
        return mask

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """Return dense weights, zero where a query does not attend."""
        return masked_attention(q, k, v, self.narrow(mask), position)

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        return masked_scores(q, k, self.narrow(mask), position)

    def dense_mask(self, mask: AttentionMask) -> Tensor | None:
        return self.narrow(mask).dense


class Reference(DenseAttention):
    """Full attention by the equation as it is written; slower than `fused`."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        return masked_attention(q, k, v, mask, position)[0]


class Spec(AttentionSpec):
    """attention: reference"""

    supports: ClassVar[frozenset[str]] = ALL_CAPABILITIES

    def build(self, sizes: Sizes) -> Attention:
        return Reference()
