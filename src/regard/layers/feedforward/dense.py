"""The feed-forward network of the paper (Vaswani et al. 2017, equation 2).

W₂ · ReLU(W₁ x + b₁) + b₂        ReLU by default; GELU as in BERT and GPT-2
"""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.layers.feedforward.base import ACTIVATIONS, FeedForwardSpec


class Dense(nn.Module):
    def __init__(self, dim: int, ffn_dim: int, activation: str, bias: bool) -> None:
        super().__init__()
        self.up_proj = nn.Linear(dim, ffn_dim, bias)
        self.down_proj = nn.Linear(ffn_dim, dim, bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        narrowed: Tensor = self.down_proj(self.activation(self.up_proj(x)))
        return narrowed


class Spec(FeedForwardSpec):
    """feed_forward: {kind: dense, activation: relu}"""

    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = Field(
        "relu", description="the non-linearity"
    )
    bias: bool = Field(True, description="b₁ and b₂")

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        return Dense(dim, ffn_dim, self.activation, self.bias)
