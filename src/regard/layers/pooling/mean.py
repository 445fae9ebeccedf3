"""The mean of all real words."""

from torch import Tensor, nn

from regard.layers.pooling.base import PoolingSpec


class Mean(nn.Module):
    def forward(self, states: Tensor, token_mask: Tensor) -> Tensor:
        token_mask = token_mask.unsqueeze(-1)
        return (states * token_mask).sum(1) / token_mask.sum(1)


class Spec(PoolingSpec):
    """pooling: mean"""

    def build(self, dim: int) -> Mean:
        return Mean()
