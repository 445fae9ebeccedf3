"""A learned bias on the scores for each head and distance (after Raffel et al. 2020, section 2.1).

    e_ij = q_i · k_j / √K + b_h[c(j − i)]            c(d) = max(−clip, min(clip, d))

T5 shares one bias among distances of similar size; here each distance up to `clip` has its own.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.positions.base import InAttention, PositionSpec, Sizes


class Distance(InAttention):
    def __init__(self, heads: int, clip: int) -> None:
        super().__init__()
        self.clip = clip
        self.table = nn.Parameter(torch.randn(heads, 2 * clip + 1) * 0.5)

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        distance = keys[None, :] - queries[:, None]  # (T, S): j − i
        index = distance.clamp(-self.clip, self.clip) + self.clip
        return self.table[:, index].to(q.dtype)  # (H, T, S)

    def retain_heads(self, heads: Sequence[int]) -> None:
        self.table = nn.Parameter(self.table.detach()[list(heads)])


class Spec(PositionSpec):
    """position: {kind: distance, clip: 128}"""

    requires: ClassVar[frozenset[str]] = frozenset({"bias"})

    clip: int = Field(128, gt=0, le=1 << 16, description="larger distances are clipped to this")

    def in_attention(self, sizes: Sizes) -> InAttention:
        return Distance(sizes.heads, self.clip)
