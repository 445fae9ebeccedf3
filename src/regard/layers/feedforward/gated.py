"""Gated feed-forward networks (Shazeer 2020): one linear map gates another.

W₂ (g(W₁ x + b₁) ∗ (V x + c)) + b₂       g: sigmoid = GLU, gelu = GeGLU, silu = SwiGLU
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from regard.layers.activations import silu
from regard.layers.activations.base import ActivationSpec
from regard.layers.feedforward.base import FeedForwardSpec


class Gated(nn.Module):
    def __init__(self, dim: int, ffn_dim: int, activation: ActivationSpec, bias: bool) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, ffn_dim, bias)
        self.up_proj = nn.Linear(dim, ffn_dim, bias)
        self.down_proj = nn.Linear(ffn_dim, dim, bias)
        self.activation = activation.function()
        self.engine_activation = activation.engine_code

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        output: Tensor = self.down_proj(self.activation(self.gate_proj(x)) * self.up_proj(x))
        return output


class Spec(FeedForwardSpec):
    """feed_forward: {kind: gated, activation: silu}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"gate": "activation"}

    activation: ActivationSpec = Field(
        default_factory=silu.Spec,
        description="g, a kind in layers/activations/: sigmoid = GLU, gelu = GeGLU, silu = SwiGLU",
    )
    bias: bool = Field(False, description="use b₁, c and b₂")

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        return Gated(dim, ffn_dim, self.activation, self.bias)
