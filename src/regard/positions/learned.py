"""Learned vectors, one for each position, added to the embedding.

They fit the data better than sinusoids on lengths seen in training, and end at the last index: a
later position is an error, never a silent wrap or truncation.
"""

import torch
from torch import Tensor, nn

from regard.errors import DataError
from regard.positions.base import AtEmbedding, PositionSpec, Sizes


class Learned(AtEmbedding):
    def __init__(self, dim: int, length: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, dim) * 0.02)

    def forward(self, x: Tensor, positions: int | Tensor) -> Tensor:
        end = int(positions.max()) + 1 if isinstance(positions, Tensor) else positions + x.size(1)
        if end > len(self.table):
            raise DataError(
                f"this model has learned {len(self.table)} positions and the text has {end} "
                f"tokens: shorten the text, or train with a larger model.max_length."
            )
        return x + self.table[positions if isinstance(positions, Tensor) else slice(positions, end)]


class Spec(PositionSpec):
    """position: learned"""

    def at_embedding(self, sizes: Sizes) -> AtEmbedding:
        return Learned(sizes.dim, sizes.max_length)
