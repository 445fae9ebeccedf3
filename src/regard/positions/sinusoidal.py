"""Sinusoids of varying period, added to the embedding (Vaswani et al. 2017, section 3.5).

    PE(pos, 2k)   = sin(pos / 10000^(2k/D))
    PE(pos, 2k+1) = cos(pos / 10000^(2k/D))        k = 0 … D/2 − 1

Not learned, and defined at every position, so there is no last index.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from regard.positions.base import AtEmbedding, PositionSpec, Sizes

MAX_TABLE = 1 << 16  # positions; the vectors of longer models are computed when they are needed
Layout = Literal["interleaved", "halves"]


def sinusoids(positions: Tensor, dim: int, base: float, layout: Layout) -> Tensor:
    """Return the vectors (…, D) of positions (…)."""
    exponents = torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64) / dim
    angles = positions.double()[..., None] / base**exponents  # (…, ⌈D/2⌉)
    sines, cosines = angles.sin(), angles.cos()
    if layout == "halves":
        vectors = torch.cat([sines, cosines[..., : dim // 2]], dim=-1)
    else:
        vectors = torch.stack([sines, cosines], dim=-1).flatten(-2)[..., :dim]
    return vectors.float()


class Sinusoidal(AtEmbedding):
    def __init__(self, dim: int, base: float, layout: Layout, max_length: int) -> None:
        super().__init__()
        self.dim, self.base, self.layout = dim, base, layout
        self.table_length = max_length if max_length <= MAX_TABLE else 0
        self.table: Tensor
        if torch.get_default_device().type == "meta":  # computed when the model gets its weights
            self.register_buffer("table", torch.empty(self.table_length, dim), persistent=False)
        else:
            self.compute_buffers()

    def compute_buffers(self) -> None:
        """Compute the table for the usual lengths; it is derived, so no checkpoint has it."""
        table = sinusoids(torch.arange(self.table_length), self.dim, self.base, self.layout)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, positions: int | Tensor) -> Tensor:
        length, known = x.size(1), len(self.table)
        if isinstance(positions, Tensor):
            if length <= known:
                return x + self.table[positions].to(x.dtype)
        elif positions + length <= known:
            return x + self.table[positions : positions + length].to(x.dtype)
        else:
            positions = torch.arange(positions, positions + length, device=x.device)
        return x + sinusoids(positions, self.dim, self.base, self.layout).to(x.dtype)


class Spec(PositionSpec):
    """position: sinusoidal"""

    base: float = Field(10_000.0, gt=1, description="the longest period is 2π times this")
    layout: Layout = Field("interleaved", description="sin, cos, sin, cos … or all sines first")

    def at_embedding(self, sizes: Sizes) -> AtEmbedding:
        return Sinusoidal(sizes.dim, self.base, self.layout, sizes.max_length)
