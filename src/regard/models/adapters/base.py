"""Adapters: a few new weights beside those of a trained model, which stay as they are.

One file a kind. An adapter is attached to a model, is trained and saved apart from it, and can be
merged: the model is then an ordinary one again.
"""

from torch import nn

from regard.config import Kind


class AdapterSpec(Kind, package="regard.models.adapters", default="lora"):
    """A kind of adapter."""

    def attach(self, model: nn.Module) -> None:
        """Put the adapter beside the weights; the model says just what it said before."""
        raise NotImplementedError

    def merge(self, model: nn.Module) -> None:
        """Put what the adapter has learned into the weights, and take it away."""
        raise NotImplementedError
