"""Feed-forward networks, one file a kind: the non-linear sublayer of a Transformer block."""

from collections.abc import Mapping
from typing import ClassVar

from torch import nn

from regard.config import Kind


class FeedForwardSpec(Kind, package="regard.layers.feedforward", default="dense"):
    """A kind of feed-forward network: D → ffn_dim → D, each token by itself.

    The network is called with x (B, T, D) and a mask (B, T) or None, True = the output of the token
    is needed. Outputs of the other tokens are not used, so a kind may skip them.
    """

    renamed_kinds: ClassVar[Mapping[str, str]] = {"experts": "moe"}

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        raise NotImplementedError
