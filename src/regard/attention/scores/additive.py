"""The additive score, a small network (Bahdanau et al. 2015).

e = v · tanh(W s + U a + b)
"""

import torch
from torch import Tensor, nn

from regard.attention.scores.base import Score, ScoreSpec


class Additive(Score):
    def __init__(self, dim: int, bias: bool = True) -> None:
        super().__init__()
        self.w_q = nn.Linear(dim, dim, bias)
        self.w_k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.randn(dim) / dim**0.5)

    def query(self, s: Tensor) -> Tensor:
        query: Tensor = self.w_q(s)
        return query

    def keys(self, a: Tensor) -> Tensor:
        keys: Tensor = self.w_k(a)
        return keys

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return (q.unsqueeze(-2) + k.unsqueeze(-3)).tanh() @ self.v


class Spec(ScoreSpec):
    """score: additive"""

    def build(self, dim: int) -> Additive:
        return Additive(dim)
