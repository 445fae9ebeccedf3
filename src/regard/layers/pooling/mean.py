"""The mean of the states of all real tokens."""

from torch import Tensor, nn

from regard.layers.pooling.base import PoolingSpec


class Mean(nn.Module):
    def forward(self, states: Tensor, token_mask: Tensor) -> Tensor:
        is_token = token_mask.unsqueeze(-1)
        return (states * is_token).sum(1) / is_token.sum(1)


class Spec(PoolingSpec):
    """pooling: mean"""

    def build(self, dim: int) -> Mean:
        return Mean()
