"""Root-mean-square normalization (Zhang and Sennrich 2019): layer norm without centering.

output = x / √((1/D) Σ_j x_j² + ε) ∗ gain
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.layers.norms.base import NormSpec


class RMSNorm(nn.Module):
    def __init__(self, dim: int, gain: bool, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim)) if gain else None
        self.dim, self.eps = dim, eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (self.dim,), self.gain, self.eps)


class Spec(NormSpec):
    """norm: rms"""

    gain: bool = Field(True, description="multiply by a learned gain")
    eps: float = Field(1e-6, gt=0, description="keeps a zero vector from dividing by zero")

    def build(self, dim: int) -> nn.Module:
        return RMSNorm(dim, self.gain, self.eps)
