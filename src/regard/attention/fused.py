"""Full attention through torch's fused kernel: the same answer as `reference`, faster.

The kernel does not return weights. Whoever asks for them (`explain`), and positions that add to the
values, which takes the weights, go through the reference.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import ALL, Attention, AttentionSpec
from regard.attention.masks import View
from regard.attention.reference import explain, scores
from regard.positions.base import InAttention, Sizes


def fused(q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention) -> Tensor:
    if position.weighs_values:
        return explain(q, k, v, view, position)[0]
    bias = position.bias(q, view.queries, view.keys)
    if bias is None and view.plainly_causal:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=_joined(view.visible, bias))


class Fused(Attention):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention) -> Tensor:
        return fused(q, k, v, view, position)

    def explain(
        self, q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        return explain(q, k, v, view, position)

    def scores(self, q: Tensor, k: Tensor, view: View, position: InAttention) -> Tensor:
        return scores(q, k, view, position)


def _joined(visible: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """The kernel takes one mask: True / False, or a bias in which −∞ hides."""
    if visible is None or bias is None:
        return visible if bias is None else bias
    return torch.where(visible, bias, float("-inf"))


class Spec(AttentionSpec):
    """attention: fused"""

    honours: ClassVar[frozenset[str]] = ALL

    def build(self, sizes: Sizes) -> Attention:
        return Fused()
