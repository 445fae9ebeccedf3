"""The score of both states beside each other (Luong et al. 2015).

    e = v · tanh(W [s; a])

One matrix, of which each state meets its own half: W [s; a] = W_s s + W_a a.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.scores import Score, ScoreSpec
from regard.attention.scores.additive import sum_of_tanh


class Concat(Score):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.w = nn.Linear(2 * dim, dim, bias=False)
        self.v = nn.Parameter(torch.randn(dim) / dim**0.5)

    def query(self, s: Tensor) -> Tensor:
        return F.linear(s, self.w.weight[:, : self.dim])

    def keys(self, a: Tensor) -> Tensor:
        return F.linear(a, self.w.weight[:, self.dim :])

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return sum_of_tanh(q, k, self.v)


class Spec(ScoreSpec):
    """score: concat"""

    def build(self, dim: int) -> Concat:
        return Concat(dim)
