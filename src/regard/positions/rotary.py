"""Rotary positions (Su et al. 2021, equation 34): queries and keys are rotated by their position.

    (x_2k, x_2k+1) ↦ (x_2k cos pθ_k − x_2k+1 sin pθ_k,  x_2k sin pθ_k + x_2k+1 cos pθ_k)
    θ_k = base^(−2k/K)

The product of a query at i and a key at j then depends on i − j alone (tested).
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from regard.errors import ConfigError
from regard.positions.base import InAttention, PositionSpec, Sizes

Pairs = Literal["adjacent", "halves"]


class Rotary(InAttention):
    def __init__(self, head_dim: int, base: float, pairs: Pairs) -> None:
        super().__init__()
        self.head_dim, self.base, self.pairs = head_dim, base, pairs

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        exponents = torch.arange(0, self.head_dim, 2, device=x.device) / self.head_dim
        angles = positions[:, None] * self.base**-exponents  # (T, K/2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        # x cos + (its partner in the pair) sin: on whole rows, which avoids splitting and
        # concatenating the halves, forward and backward.
        if self.pairs == "halves":  # the layout of GPT-NeoX and Llama: first half with second half
            partner = x.roll(self.head_dim // 2, -1)
            return x * torch.cat([cos, cos], -1) + partner * torch.cat([-sin, sin], -1)
        partner = x.view(*x.shape[:-1], -1, 2).roll(1, -1).flatten(-2)
        return x * _interleave(cos, cos) + partner * _interleave(-sin, sin)


def _interleave(first: Tensor, second: Tensor) -> Tensor:
    """Interleave two tensors (T, K/2) to (T, K)."""
    return torch.stack([first, second], -1).flatten(-2)


class Spec(PositionSpec):
    """position: rotary"""

    base: float = Field(10_000.0, gt=1, description="the longest period is 2π times this")
    pairs: Pairs = Field("adjacent", description="components that are rotated together")

    def in_attention(self, sizes: Sizes) -> InAttention:
        if sizes.head_dim % 2:
            raise ConfigError(
                f"position rotary rotates pairs, so the head size must be even; it is "
                f"{sizes.head_dim} (model.dim / model.heads)."
            )
        return Rotary(sizes.head_dim, self.base, self.pairs)
