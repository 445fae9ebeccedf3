"""Attention pooling: a learned query attends to all tokens (Yang et al. 2016).

pooled = Σ_j softmax_j(q · x_j / √D) x_j

Its weights are recorded like those of any other attention, under the name `pool`.
"""

import torch
from torch import Tensor, nn

from regard.attention.fused import Fused
from regard.attention.masks import AttentionMask
from regard.layers.pooling.base import PoolingSpec
from regard.positions.base import InAttention


class AttentionPooling(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(dim))  # uniform weights at first
        self.attention = Fused()
        self.position = InAttention()

    def forward(self, states: Tensor, token_mask: Tensor) -> Tensor:
        query = self.query.expand(states.size(0), 1, 1, -1)  # (B, H = 1, T = 1, D)
        keys = states.unsqueeze(1)  # (B, 1, S, D)
        mask = AttentionMask.cross(1, token_mask)
        pooled: Tensor = self.attention(query, keys, keys, mask, self.position)
        return pooled[:, 0, 0]


class Spec(PoolingSpec):
    """pooling: attention"""

    def build(self, dim: int) -> AttentionPooling:
        return AttentionPooling(dim)
