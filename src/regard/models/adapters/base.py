"""Base class of the adapters: few trainable parameters added to a frozen model.

An adapter is attached to a model, trained and saved separately, and can be merged into the model's
parameters, which then is a model without adapter again.
"""

from torch import nn

from regard.config import Kind


class AdapterSpec(Kind, package="regard.models.adapters", default="lora"):
    """An adapter kind."""

    def attach(self, model: nn.Module) -> None:
        """Add the adapter to the model; its outputs do not change."""
        raise NotImplementedError

    def merge(self, model: nn.Module) -> None:
        """Add the adapter's contribution to the model's parameters and remove the adapter."""
        raise NotImplementedError
