"""Full attention by torch's fused kernel: the same output as `reference`, faster.

The kernel does not return weights. `attend_with_weights`, and positions that add to the values,
which needs the weights, use the reference.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import ALL_CAPABILITIES, Attention, AttentionSpec
from regard.attention.masks import AttentionMask
from regard.attention.reference import DenseAttention, masked_attention
from regard.positions.base import InAttention, Sizes


def fused(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
    if position.weighs_values or _is_slow(q):
        return masked_attention(q, k, v, mask, position)[0]
    bias = position.bias(q, mask.queries, mask.keys)
    if bias is None and mask.is_plain_causal:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=_additive_mask(mask.dense, bias))


def _is_slow(q: Tensor) -> bool:
    """Return True where the kernel is slower than the equation: training in bfloat16 on a CPU.

    Forward and backward of short texts take it four to eight times as long.
    """
    return q.device.type == "cpu" and q.dtype == torch.bfloat16 and torch.is_grad_enabled()


class Fused(DenseAttention):
    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        return fused(q, k, v, mask, position)


def _additive_mask(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Combine both into the one mask of the kernel: booleans, or a bias with −∞ where masked."""
    if visible is None or bias is None:
        return visible if bias is None else bias
    return torch.where(visible, bias, float("-inf"))


class Spec(AttentionSpec):
    """attention: fused"""

    supports: ClassVar[frozenset[str]] = ALL_CAPABILITIES

    def build(self, sizes: Sizes) -> Attention:
        return Fused()
