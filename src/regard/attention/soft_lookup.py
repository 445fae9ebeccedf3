"""Attention without parameters: the soft look-up, and self-attention.

    y_i = Σ_j w_ij x_j,   w_ij = softmax_j(x_i · x_j)          in one line:  Y = softmax(X Xᵀ) X

It depends on the embeddings alone. It is permutation-equivariant: p(sa(X)) = sa(p(X)).
"""

import torch.nn.functional as F
from torch import Tensor

from regard.attention.base import Attention
from regard.attention.masks import AttentionMask
from regard.attention.reference import dot_product_attention
from regard.positions.base import InAttention


def soft_lookup(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Return the average of the values (S, K), weighted by the match of query (K,) and keys."""
    return dot_product_attention(query[None], keys, values, scale=1.0)[0][0]


def self_attention(x: Tensor, visible: Tensor | None = None) -> Tensor:
    """Self-attention of x (…, T, D) without parameters and scaling."""
    return dot_product_attention(x, x, x, visible, scale=1.0)[0]


class UnscaledAttention(Attention):
    """Self-attention without scaling by √K as a layer, with a mask."""

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
        scores = q @ k.transpose(-2, -1)
        return scores if mask.dense is None else scores.masked_fill(~mask.dense, float("-inf"))
