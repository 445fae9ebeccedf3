"""Attention before it has parameters: the soft look-up, and bare self-attention.

    y_i = Σ_j w_ij x_j,   w_ij = softmax_j(x_i · x_j)          in one line:  Y = softmax(X Xᵀ) X

The embeddings alone drive it. It is a model of sets: permute the words and the answers are permuted
alike, p(sa(X)) = sa(p(X)).
"""

from torch import Tensor

from regard.attention.reference import attend


def soft_lookup(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The average of the values (S, K), weighted by how well each key matches the query (K,)."""
    return attend(query[None], keys, values, scale=1.0)[0][0]


def self_attention(x: Tensor, visible: Tensor | None = None) -> Tensor:
    """Bare self-attention of x (…, T, D): no parameters and no scaling."""
    return attend(x, x, x, visible, scale=1.0)[0]
