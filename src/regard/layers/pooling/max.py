"""Max pooling: the largest value of each component over all real tokens."""

from torch import Tensor, nn

from regard.layers.pooling.base import PoolingSpec


class Max(nn.Module):
    def forward(self, states: Tensor, token_mask: Tensor) -> Tensor:
        return states.masked_fill(~token_mask.unsqueeze(-1), float("-inf")).amax(1)


class Spec(PoolingSpec):
    """pooling: max"""

    def build(self, dim: int) -> Max:
        return Max()
