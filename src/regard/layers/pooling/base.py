"""From the states of many words to one vector of the whole text, one file a kind."""

from torch import nn

from regard.config import Kind


class PoolingSpec(Kind, package="regard.layers.pooling", default="mean"):
    """A kind of pooling: states (B, T, D) and their padding (B, T), True = real, to (B, D)."""

    def build(self, dim: int) -> nn.Module:
        raise NotImplementedError
