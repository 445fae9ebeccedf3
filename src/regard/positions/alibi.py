"""ALiBi (Press, Smith and Lewis 2022): a penalty on the scores that grows with distance.

    e_ij = q_i · k_j / √K − m_h |i − j|            m_h = 2^(−8h/H),  h = 1 … H

No parameters. In an encoder the distance counts in both directions. For a number of heads that is
not a power of two, the slopes of the next power are interleaved, as in the paper's own code.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from regard.positions.base import InAttention, PositionSpec, Sizes
from regard.positions.slopes import slopes


class Alibi(InAttention):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.values_by_head = slopes(heads)
        self.slopes: Tensor
        self.compute_buffers()

    def compute_buffers(self) -> None:
        """Put the slopes into a tensor; they are derived, so no checkpoint has them."""
        self.register_buffer("slopes", torch.tensor(self.values_by_head), persistent=False)

    def bias(self, q: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (keys[None, :] - queries[:, None]).abs()  # (T, S)
        return -self.slopes[:, None, None].to(q.dtype) * distance  # (H, T, S)

    def retain_heads(self, heads: Sequence[int]) -> None:
        self.values_by_head = [self.values_by_head[head] for head in heads]
        self.slopes = self.slopes[list(heads)]


class Spec(PositionSpec):
    """position: alibi"""

    requires: ClassVar[frozenset[str]] = frozenset({"bias"})

    def in_attention(self, sizes: Sizes) -> InAttention:
        return Alibi(sizes.heads)
