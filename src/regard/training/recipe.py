"""A recipe: everything that makes a model what it is, in one typed tree."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.config import Spec, override, read_yaml, validate
from regard.data.sources import SourceSpec
from regard.data.vectors import VectorsSpec
from regard.models.kind import ModelSpec
from regard.training.loop import TrainingSpec


class TokenizerSpec(Spec):
    vocabulary: int = Field(8000, ge=64, description="pieces at most, special ones included")


class Recipe(Spec):
    data: SourceSpec = Field(..., description="where the text comes from, a kind in data/sources/")
    tokenizer: TokenizerSpec = Field(TokenizerSpec(), description="how text is cut into pieces")
    model: ModelSpec = Field(..., description="what is trained, a kind in models/")
    vectors: VectorsSpec | None = Field(None, description="pretrained vectors for the embedding")
    training: TrainingSpec = Field(TrainingSpec(), description="how it is trained")


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    return make_recipe(read_yaml(path), assignments, str(path))


def make_recipe(content: dict[str, Any], assignments: Sequence[str], source: str) -> Recipe:
    """A recipe from plain content with overrides made in it; `source` is named in errors."""
    return validate(Recipe, override(content, assignments), source)
