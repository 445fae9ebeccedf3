"""Gated feed-forward networks (Shazeer 2020): one half opens or shuts the other.

W₂ (g(W₁ x + b₁) ∗ (V x + c)) + b₂       g: sigmoid = GLU, gelu = GeGLU, silu = SwiGLU
"""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.layers.feedforward.base import ACTIVATIONS, FeedForwardSpec


class Gated(nn.Module):
    def __init__(self, dim: int, ffn_dim: int, gate: str, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, ffn_dim, bias)
        self.up_proj = nn.Linear(dim, ffn_dim, bias)
        self.down_proj = nn.Linear(ffn_dim, dim, bias)
        self.activation = ACTIVATIONS[gate]

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        narrowed: Tensor = self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))
        return narrowed


class Spec(FeedForwardSpec):
    """feed_forward: {kind: gated, gate: silu}"""

    gate: Literal["sigmoid", "gelu", "gelu-tanh", "silu", "relu"] = Field(
        "silu", description="sigmoid = GLU, gelu = GeGLU, silu = SwiGLU"
    )
    bias: bool = Field(False, description="b₁, c and b₂")

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        return Gated(dim, ffn_dim, self.gate, self.bias)
