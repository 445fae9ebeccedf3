"""A learned query looks at all words, and what it finds stands for the whole (Yang et al. 2016).

pooled = Σ_j softmax_j(q · x_j / √D) x_j

Whoever watches the model sees these weights as those of any other attention, by the name `pool`.
"""

import torch
from torch import Tensor, nn

from regard.attention.fused import Fused
from regard.attention.masks import AttentionMask
from regard.layers.pooling.base import PoolingSpec
from regard.positions.base import InAttention


class Look(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(dim))  # at first it looks at all alike
        self.attention = Fused()
        self.position = InAttention()

    def forward(self, states: Tensor, token_mask: Tensor) -> Tensor:
        query = self.query.expand(len(states), 1, 1, -1)  # (B, H = 1, T = 1, D)
        words = states.unsqueeze(1)  # (B, 1, S, D)
        found: Tensor = self.attention(
            query, words, words, AttentionMask.cross(1, token_mask), self.position
        )
        return found[:, 0, 0]


class Spec(PoolingSpec):
    """pooling: attention"""

    def build(self, dim: int) -> Look:
        return Look(dim)
