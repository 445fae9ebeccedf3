"""The state of the first token: [CLS] in BERT, <s> here (Devlin et al. 2019)."""

from torch import Tensor, nn

from regard.layers.pooling.base import PoolingSpec


class First(nn.Module):
    def forward(self, states: Tensor, token_mask: Tensor) -> Tensor:
        return states[:, 0]


class Spec(PoolingSpec):
    """pooling: first"""

    def build(self, dim: int) -> First:
        return First()
