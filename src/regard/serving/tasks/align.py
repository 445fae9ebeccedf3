"""Align the words of translations with those of their sources."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from regard.serving.alignment import Alignment, align_pairs
from regard.serving.tasks.base import TaskContext

if TYPE_CHECKING:
    from regard.predictors.translator import Translator

PREDICTORS = ("Translator",)
MAX_PAIRS = 1000


class Arguments(BaseModel, extra="forbid"):
    """Sources, each with its translation, and the target language."""

    pairs: list[tuple[str, str]] = Field(max_length=MAX_PAIRS)
    to: str | None = None


class Result(BaseModel):
    """One alignment for each pair."""

    alignments: list[Alignment]


def observes(_: Arguments) -> bool:
    """Return True: the weights are those of the torch model."""
    return True


def run(predictor: "Translator", arguments: Arguments, context: TaskContext) -> Result:
    """Align the words of each pair."""
    return Result(alignments=align_pairs(predictor, arguments.pairs, arguments.to, context))
