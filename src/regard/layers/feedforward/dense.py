"""The feed-forward network of the paper (Vaswani et al. 2017, equation 2).

W₂ · g(W₁ x + b₁) + b₂        g: ReLU by default; GELU as in BERT and GPT-2
"""

from pydantic import Field
from torch import Tensor, nn

from regard.config import kind_field
from regard.layers.activations.base import ActivationSpec
from regard.layers.feedforward.base import FeedForwardSpec


class Dense(nn.Module):
    def __init__(self, dim: int, ffn_dim: int, activation: ActivationSpec, bias: bool) -> None:
        super().__init__()
        self.up_proj = nn.Linear(dim, ffn_dim, bias)
        self.down_proj = nn.Linear(ffn_dim, dim, bias)
        self.activation = activation.function()
        self.engine_activation = activation.engine_code

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        output: Tensor = self.down_proj(self.activation(self.up_proj(x)))
        return output


class Spec(FeedForwardSpec):
    """feed_forward: {kind: dense, activation: relu}"""

    activation: ActivationSpec = kind_field(ActivationSpec, "g, a kind in layers/activations/")
    bias: bool = Field(True, description="use b₁ and b₂")

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        return Dense(dim, ffn_dim, self.activation, self.bias)
