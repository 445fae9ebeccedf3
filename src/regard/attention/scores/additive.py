"""The additive score, a small network (Bahdanau et al. 2015).

e = v · tanh(W s + U a)
"""

import torch
from torch import Tensor, nn

from regard.attention.scores import Score, ScoreSpec


class Additive(Score):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.w_q = nn.Linear(dim, dim)
        self.w_k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.randn(dim) / dim**0.5)

    def query(self, s: Tensor) -> Tensor:
        query: Tensor = self.w_q(s)
        return query

    def keys(self, a: Tensor) -> Tensor:
        keys: Tensor = self.w_k(a)
        return keys

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return sum_of_tanh(q, k, self.v)


def sum_of_tanh(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """v · tanh(q + k) of every pair: q (…, T, K), k (…, S, K), v (K) → (…, T, S)."""
    return (q.unsqueeze(-2) + k.unsqueeze(-3)).tanh() @ v


class Spec(ScoreSpec):
    """score: additive"""

    def build(self, dim: int) -> Additive:
        return Additive(dim)
