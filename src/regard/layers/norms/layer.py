"""Layer normalization (Ba, Kiros and Hinton 2016): each token is normalized by itself.

μ = (1/D) Σ_j x_j          σ² = (1/D) Σ_j (x_j − μ)²
x̂ = (x − μ) / √(σ² + ε)    output = x̂ ∗ gain + bias        gain and bias may each be left out
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.layers.norms.base import NormSpec


class LayerNorm(nn.Module):
    def __init__(self, dim: int, gain: bool, bias: bool, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim)) if gain else None
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None
        self.dim, self.eps = dim, eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (self.dim,), self.gain, self.bias, self.eps)


class Spec(NormSpec):
    """norm: layer"""

    gain: bool = Field(True, description="multiply by a learned gain")
    bias: bool = Field(True, description="add a learned bias")
    eps: float = Field(1e-5, gt=0, description="keeps a constant vector from dividing by zero")

    def build(self, dim: int) -> nn.Module:
        return LayerNorm(dim, self.gain, self.bias, self.eps)
