"""Rotary positions (Su et al. 2021, equation 34): queries and keys are rotated by their position.

    (x_2k, x_2k+1) ↦ (x_2k cos pθ_k − x_2k+1 sin pθ_k,  x_2k sin pθ_k + x_2k+1 cos pθ_k)
    θ_k = base^(−2k/K)

The product of a query at i and a key at j then depends on i − j alone (tested).

A model can be trained further for texts longer than its context, with smaller θ_k (`scaling`).
Linear scaling divides all by a factor (Chen et al. 2023). Llama 3.1 divides only those that make
few periods in the context they were trained with (Grattafiori et al. 2024).
"""

import math
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.config import Spec as Section
from regard.errors import ConfigError
from regard.positions.base import InAttention, PositionSpec, Sizes

Pairs = Literal["adjacent", "halves"]


class Scaling(Section):
    """scaling: {factor: 8}, or {factor: 8, context: 8192} as in Llama 3.1"""

    factor: float = Field(ge=1, description="divides θ_k")
    context: int | None = Field(
        None, gt=0, description="context it was trained with (default: all θ_k are divided)"
    )
    low: float = Field(1.0, gt=0, description="at most so many periods in the context: divided")
    high: float = Field(4.0, gt=0, description="at least so many periods in the context: kept")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low is {self.low:g} and must be less than high, {self.high:g}")
        return self

    def __call__(self, frequencies: Tensor) -> Tensor:
        """Return the scaled θ_k."""
        divided = frequencies / self.factor
        if self.context is None:
            return divided
        periods = frequencies * self.context / (2 * math.pi)
        kept = ((periods - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * frequencies + (1 - kept) * divided


class Rotary(InAttention):
    def __init__(
        self, head_dim: int, base: float, pairs: Pairs, scaling: Scaling | None = None
    ) -> None:
        super().__init__()
        self.head_dim, self.base, self.pairs, self.scaling = head_dim, base, pairs, scaling

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        exponents = torch.arange(0, self.head_dim, 2, device=x.device) / self.head_dim
        frequencies = self.base**-exponents
        if self.scaling is not None:
            frequencies = self.scaling(frequencies)
        angles = positions[:, None] * frequencies  # (T, K/2)
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
    scaling: Scaling | None = Field(None, description="smaller θ_k, for longer texts")

    def in_attention(self, sizes: Sizes) -> InAttention:
        if sizes.head_dim % 2:
            raise ConfigError(
                f"model.position: rotary rotates pairs of components, and a head has "
                f"{sizes.head_dim}: make model.dim / model.heads even."
            )
        return Rotary(sizes.head_dim, self.base, self.pairs, self.scaling)
