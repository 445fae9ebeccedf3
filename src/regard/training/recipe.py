"""A recipe: everything that makes a model what it is, in one typed tree."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from regard.config import Spec, kind_field, override, read_yaml, validate
from regard.data.corpus import DataSpec
from regard.data.tokenizers import TokenizerSpec
from regard.data.vectors import VectorsSpec
from regard.models.kind import ModelSpec
from regard.training.jobs import JobSpec
from regard.training.spec import TrainingSpec


class LookSpec(Spec):
    every: int = Field(200, gt=0, description="steps from one look to the next")
    text: str = Field(..., min_length=1, description="what the model reads each time")


class Recipe(Spec):
    job: JobSpec = kind_field(JobSpec, "what the model is for, a kind in training/jobs/")
    data: DataSpec = Field(..., description="where the text comes from")
    tokenizer: TokenizerSpec = kind_field(TokenizerSpec, "how text is cut into pieces")
    model: ModelSpec = Field(..., description="what is trained, a kind in models/")
    vectors: VectorsSpec | None = Field(None, description="pretrained vectors for the embedding")
    training: TrainingSpec = Field(
        default_factory=lambda: TrainingSpec.model_validate({}), description="how it is trained"
    )
    look: LookSpec | None = Field(
        None, description="keep what looks at what in a text while training: a film"
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        self.job.check(self.model, self.data.shape, self.training.evaluation.metric)
        return self


def read_recipe(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    return make_recipe(read_yaml(path), assignments, str(path))


def make_recipe(content: dict[str, Any], assignments: Sequence[str], source: str) -> Recipe:
    """A recipe from plain content with overrides made in it; `source` is named in errors."""
    return validate(Recipe, override(content, assignments), source)
