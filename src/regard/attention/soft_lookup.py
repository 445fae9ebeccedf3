"""Attention before it has parameters: the soft look-up, and bare self-attention.

    y_i = Σ_j w_ij x_j,   w_ij = softmax_j(x_i · x_j)          in one line:  Y = softmax(X Xᵀ) X

The embeddings alone drive it. It is a model of sets: permute the words and the answers are permuted
alike, p(sa(X)) = sa(p(X)).
"""

import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import Attention
from regard.attention.masks import AttentionMask
from regard.attention.reference import dot_product_attention
from regard.positions.base import InAttention


def soft_lookup(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The average of the values (S, K), weighted by how well each key matches the query (K,)."""
    return dot_product_attention(query[None], keys, values, scale=1.0)[0][0]


def self_attention(x: Tensor, visible: Tensor | None = None) -> Tensor:
    """Bare self-attention of x (…, T, D): no parameters and no scaling."""
    return dot_product_attention(x, x, x, visible, scale=1.0)[0]


class UnscaledAttention(Attention):
    """The same within models, where it may be masked and watched: scores are not divided by √K."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, _: InAttention
    ) -> Tensor:
        if mask.is_plain_causal:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.dense, scale=1.0)

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, _: InAttention
    ) -> tuple[Tensor, Tensor]:
        return dot_product_attention(q, k, v, mask.dense, scale=1.0)

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, _: InAttention) -> Tensor:
        found = q @ k.transpose(-2, -1)
        return found if mask.dense is None else found.masked_fill(~mask.dense, float("-inf"))
