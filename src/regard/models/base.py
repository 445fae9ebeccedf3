"""What every kind of model answers to: a spec that, given a vocabulary, builds a module."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import nn

from regard.config import Kind


class ModelSpec(Kind, package="regard.models"):
    """A kind of model. It says what it can do, and a job takes any kind that can do it."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {
        "masked": "masked-lm",
        "bare": "self-attention-only",
        "word-window": "convolutional",
    }

    can: ClassVar[frozenset[str]] = frozenset()  # "translate", "continue text", "classify" …
    joined: ClassVar[bool] = False  # are source and target one sequence of max_length tokens?

    max_length: int = Field(512, gt=0, description="the longest sequence, in tokens")

    def meant_for(self, does: str) -> "ModelSpec":
        """The same, to do one of the things that it can."""
        return self

    @property
    def reads_trees(self) -> bool:
        """Must its texts come with their dependency trees?"""
        return False

    @property
    def learns_by_heart(self) -> bool:
        """Whether it could remember a few examples word for word; what cannot tell is no proof."""
        return True

    def build(self, vocabulary: int) -> nn.Module:
        raise NotImplementedError


def parameter_count(model: nn.Module) -> int:
    """Parameters, shared ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def trained_count(model: nn.Module) -> int:
    """Those of them that are not frozen."""
    return sum(each.numel() for each in model.parameters() if each.requires_grad)
