"""The mean of all real words."""

from torch import Tensor, nn

from regard.layers.pooling.base import PoolingSpec


class Mean(nn.Module):
    def forward(self, states: Tensor, padding: Tensor) -> Tensor:
        real = padding.unsqueeze(-1)
        return (states * real).sum(1) / real.sum(1)


class Spec(PoolingSpec):
    """pooling: mean"""

    def build(self, dim: int) -> Mean:
        return Mean()
