"""Relative positions (Shaw, Uszkoreit and Vaswani 2018, equations 3 and 4).

    e_ij = q_i · (k_j + a^K_{c(j−i)}) / √K
    o_i  = Σ_j α_ij (v_j + a^V_{c(j−i)})            c(d) = max(−clip, min(clip, d))

The vectors a^K and a^V are learned, one for each clipped distance, shared by the heads of a layer.
Neither sum needs a tensor of size T × S × K: scores are gathered from q·a^K over the 2·clip + 1
distances, and weights of the same distance are summed before the product with a^V.
"""

import math
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.positions.base import InAttention, PositionSpec, Sizes


def scores_by(vectors: Tensor, q: Tensor, index: Tensor) -> Tensor:
    """Return q · a / √K (B, H, T, S); index (…, T, S) selects a among the vectors (N, K)."""
    by_vector = q @ vectors.T / math.sqrt(q.size(-1))  # (B, H, T, N)
    return by_vector.gather(-1, index.expand(*q.shape[:-1], -1))


class Relative(InAttention):
    def __init__(self, head_dim: int, clip: int, on_values: bool) -> None:
        super().__init__()
        self.clip, self.weighs_values = clip, on_values
        distances = 2 * clip + 1
        self.to_keys = nn.Parameter(torch.randn(distances, head_dim) / math.sqrt(head_dim))
        self.to_values = (
            nn.Parameter(torch.randn(distances, head_dim) / math.sqrt(head_dim))
            if on_values
            else None
        )

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        return scores_by(self.to_keys, q, self._distances(queries, keys))

    def values(self, weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor | None:
        if self.to_values is None:
            return None
        index = self._distances(queries, keys).expand_as(weights)
        empty = weights.new_zeros(*weights.shape[:-1], len(self.to_values))
        return empty.scatter_add(-1, index, weights) @ self.to_values

    def _distances(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = keys[None, :] - queries[:, None]  # (T, S): j − i
        return distance.clamp(-self.clip, self.clip) + self.clip


class Spec(PositionSpec):
    """position: {kind: relative, clip: 16}"""

    requires: ClassVar[frozenset[str]] = frozenset({"bias", "values"})

    clip: int = Field(16, gt=0, le=1 << 16, description="larger distances are clipped to this")
    on_values: bool = Field(True, description="add vectors to the values as well as to the keys")

    def in_attention(self, sizes: Sizes) -> InAttention:
        return Relative(sizes.head_dim, self.clip, self.on_values)
