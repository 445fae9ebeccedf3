"""The interface of a normalization; one file a kind."""

from torch import nn

from regard.config import Kind


class NormSpec(Kind, package="regard.layers.norms", default="layer"):
    """A kind of normalization over the model size D."""

    def build(self, dim: int) -> nn.Module:
        raise NotImplementedError
