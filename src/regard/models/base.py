"""Base class of all model kinds: a spec that builds a module for a vocabulary size."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import nn

from regard.config import Kind

Capability = Literal["seq2seq", "causal-lm", "masked-lm", "sequence-classification"]


class ModelSpec(Kind, package="regard.models"):
    """A model kind. It declares its capabilities; a task accepts every kind that has the one it
    requires.

    Example:
        >>> import regard
        >>> content = {"kind": "language-model", "dim": 32, "heads": 2}
        >>> spec = regard.ModelSpec.model_validate(content)
        >>> type(spec.build(vocabulary=100)).__name__
        'LanguageModel'
    """

    renamed_kinds: ClassVar[Mapping[str, str]] = {
        "masked": "masked-lm",
        "bare": "self-attention-only",
        "word-window": "convolutional",
    }

    capabilities: ClassVar[frozenset[Capability]] = frozenset()
    single_sequence: ClassVar[bool] = False  # source and target share one max_length sequence

    max_length: int = Field(512, gt=0, le=1 << 24, description="the longest sequence, in tokens")

    def for_capability(self, capability: Capability) -> "ModelSpec":
        """Return the spec specialized for one of its capabilities."""
        return self

    @property
    def needs_trees(self) -> bool:
        """True if each input must come with its dependency tree."""
        return False

    @property
    def can_overfit(self) -> bool:
        """True if the model can memorize a few examples, so that failing to do so is an error."""
        return True

    def build(self, vocabulary: int) -> nn.Module:
        """Build the model with freshly initialized parameters.

        Args:
            vocabulary: number of rows of the token embedding.
        """
        raise NotImplementedError


def parameter_count(model: nn.Module) -> int:
    """Number of parameters; shared parameters are counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def trainable_count(model: nn.Module) -> int:
    """Number of parameters that are not frozen."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
