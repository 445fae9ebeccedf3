"""Full attention through torch's fused kernel: the same answer as `reference`, faster.

The kernel does not return weights. Whoever asks for them (`explain`), and positions that add to the
values, which takes the weights, go through the reference.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import ALL_CAPABILITIES, Attention, AttentionSpec
from regard.attention.masks import AttentionMask
from regard.attention.reference import masked_attention, masked_scores
from regard.positions.base import InAttention, Sizes


def fused(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
    if position.weighs_values:
        return masked_attention(q, k, v, mask, position)[0]
    bias = position.bias(q, mask.queries, mask.keys)
    if bias is None and mask.is_plain_causal:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=_joined(mask.dense, bias))


class Fused(Attention):
    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        return fused(q, k, v, mask, position)

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        return masked_attention(q, k, v, mask, position)

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        return masked_scores(q, k, mask, position)


def _joined(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """The kernel takes one mask: True / False, or a bias in which −∞ hides."""
    if visible is None or bias is None:
        return visible if bias is None else bias
    return torch.where(visible, bias, float("-inf"))


class Spec(AttentionSpec):
    """attention: fused"""

    supports: ClassVar[frozenset[str]] = ALL_CAPABILITIES

    def build(self, sizes: Sizes) -> Attention:
        return Fused()
