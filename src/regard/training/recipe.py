"""A recipe: everything that makes a model what it is, in one typed tree."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from regard.config import Spec, kind_field, override, read_yaml, validate
from regard.data.config import DataSpec
from regard.data.tokenizers.base import TokenizerSpec
from regard.models.adapters.base import AdapterSpec
from regard.models.base import ModelSpec
from regard.training.config import TrainingSpec
from regard.training.init.config import InitSpec, fill_in
from regard.training.init.word_vectors import PretrainedEmbeddingsSpec
from regard.training.tasks.base import TaskSpec


class AttentionHistorySpec(Spec):
    every: int = Field(200, gt=0, description="steps from one look to the next")
    text: str = Field(..., min_length=1, description="what the model reads each time")


class Recipe(Spec):
    """Everything that defines a training run: task, data, tokenizer, model and training.

    Example:
        >>> import regard
        >>> regard.read_recipe("recipe.yaml").model.kind()
        'encoder-decoder'
    """

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "job": "task",
        "look": "attention_history",
        "vectors": "pretrained_embeddings",
    }

    task: TaskSpec = kind_field(TaskSpec, "what the model is for, a kind in training/tasks/")
    data: DataSpec = Field(..., description="where the text comes from")
    tokenizer: TokenizerSpec = kind_field(TokenizerSpec, "how text is cut into pieces")
    model: ModelSpec = Field(..., description="what is trained, a kind in models/")
    init: InitSpec | None = Field(None, description="a run whose weights to begin with")
    adapter: AdapterSpec | None = Field(
        None, description="train a few new weights beside those of init, a kind in models/adapters/"
    )
    pretrained_embeddings: PretrainedEmbeddingsSpec | None = Field(
        None, description="word2vec or GloVe vectors to initialize the embedding"
    )
    training: TrainingSpec = Field(
        default_factory=lambda: TrainingSpec.model_validate({}), description="how it is trained"
    )
    attention_history: AttentionHistorySpec | None = Field(
        None, description="keep what looks at what in a text while training: a film"
    )

    @model_validator(mode="before")
    @classmethod
    def _begins_with(cls, given: Any) -> Any:
        has_init = isinstance(given, Mapping) and given.get("init") is not None
        return fill_in(given) if has_init else given

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.adapter is not None and self.init is None:
            raise ValueError("adapter: there is nothing to adapt; say which run with init")
        if self.pretrained_embeddings is not None and self.init is not None:
            raise ValueError(
                "pretrained_embeddings: init already gives the embedding; leave out one of the two"
            )
        self.task.check(self.model, self.data.record_type, self.training.evaluation.metric)
        if self.model.needs_trees:
            self.data.require_trees("model.position: syntax")
        return self


def read_recipe(path: Path | str, assignments: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a YAML file.

    Args:
        path: The file.
        assignments: Overrides, each key=value, such as "training.steps=100".

    Returns:
        The validated recipe.

    Raises:
        ConfigError: The file cannot be read, or the recipe is not valid.

    Example:
        >>> import regard
        >>> regard.read_recipe("recipe.yaml", ["training.steps=100"]).training.steps
        100
    """
    return make_recipe(read_yaml(Path(path)), assignments, str(path))


def make_recipe(content: dict[str, Any], assignments: Sequence[str], source: str) -> Recipe:
    """A recipe from plain content with overrides made in it; `source` is named in errors."""
    return validate(Recipe, override(content, assignments), source)
