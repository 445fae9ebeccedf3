"""Normalisations, one file a kind. `NormSpec` is what they share."""

from torch import nn

from regard.config import Kind


class NormSpec(Kind, package="regard.layers.norms", default="layer"):
    """A kind of normalisation over the model size D."""

    def build(self, dim: int) -> nn.Module:
        raise NotImplementedError
