"""Attention before it has parameters: the soft look-up, and bare self-attention.

    y_i = Σ_j w_ij x_j,   w_ij = softmax_j(x_i · x_j)          in one line:  Y = softmax(X Xᵀ) X

The embeddings alone drive it. It is a model of sets: permute the words and the answers are permuted
alike, p(sa(X)) = sa(p(X)).
"""

import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import Attention
from regard.attention.masks import View
from regard.attention.reference import attend
from regard.positions.base import InAttention


def soft_lookup(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The average of the values (S, K), weighted by how well each key matches the query (K,)."""
    return attend(query[None], keys, values, scale=1.0)[0][0]


def self_attention(x: Tensor, visible: Tensor | None = None) -> Tensor:
    """Bare self-attention of x (…, T, D): no parameters and no scaling."""
    return attend(x, x, x, visible, scale=1.0)[0]


class Bare(Attention):
    """The same within models, where it may be masked and watched: scores are not divided by √K."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, view: View, _: InAttention) -> Tensor:
        if view.plainly_causal:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=view.visible, scale=1.0)

    def explain(
        self, q: Tensor, k: Tensor, v: Tensor, view: View, _: InAttention
    ) -> tuple[Tensor, Tensor]:
        return attend(q, k, v, view.visible, scale=1.0)

    def scores(self, q: Tensor, k: Tensor, view: View, _: InAttention) -> Tensor:
        found = q @ k.transpose(-2, -1)
        return found if view.visible is None else found.masked_fill(~view.visible, float("-inf"))
