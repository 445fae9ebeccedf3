"""Pooling, one file a kind: from the states of all tokens to one vector for the whole text."""

from torch import nn

from regard.config import Kind


class PoolingSpec(Kind, package="regard.layers.pooling", default="mean"):
    """A kind of pooling: states (B, T, D) and token_mask (B, T), True = real token, to (B, D)."""

    def build(self, dim: int) -> nn.Module:
        raise NotImplementedError
