"""A recipe: task, data, tokenizer, model and training as one typed tree."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

from regard.config import Spec, kind_field, override, read_yaml, validate
from regard.data.config import DataSpec
from regard.data.tokenizers.base import TokenizerSpec
from regard.models.adapters.base import AdapterSpec
from regard.models.base import ModelSpec
from regard.models.transformer import AUTO
from regard.training.config import TrainingSpec
from regard.training.init.config import InitSpec, fill_in
from regard.training.init.word_vectors import PretrainedEmbeddingsSpec
from regard.training.tasks.base import TaskSpec


class AttentionHistorySpec(Spec):
    """attention_history: {every: 200, text: "The animal didn't cross the street."}"""

    every: int = Field(200, gt=0, description="steps between snapshots")
    text: str = Field(..., min_length=1, description="the text whose attention is recorded")


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

    task: TaskSpec = kind_field(TaskSpec, "the task to train for, a kind in training/tasks/")
    data: DataSpec = Field(..., description="sources of the training, dev and test data")
    tokenizer: TokenizerSpec = kind_field(
        TokenizerSpec, "the tokenizer, a kind in data/tokenizers/"
    )
    model: ModelSpec = Field(
        ..., description="the model, a kind in models/ (default: the task's, with size: auto)"
    )
    init: InitSpec | None = Field(None, description="a run that provides the initial weights")
    adapter: AdapterSpec | None = Field(
        None, description="train an adapter of init's weights, a kind in models/adapters/"
    )
    pretrained_embeddings: PretrainedEmbeddingsSpec | None = Field(
        None, description="word2vec or GloVe vectors to initialize the embedding"
    )
    training: TrainingSpec = Field(
        default_factory=lambda: TrainingSpec.model_validate({}),
        description="optimizer, schedule, evaluation and other settings",
    )
    attention_history: AttentionHistorySpec | None = Field(
        None, description="record the attention in a text during training"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_from_init(cls, content: Any) -> Any:
        if not isinstance(content, Mapping):
            return content
        return fill_in(content) if content.get("init") is not None else _with_model(content)

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.adapter is not None and self.init is None:
            raise ValueError("adapter: there is no model to adapt; name its run with init")
        if self.pretrained_embeddings is not None and self.init is not None:
            raise ValueError(
                "pretrained_embeddings: init already gives the embedding; leave out one of the two"
            )
        if self.init is not None and getattr(self.model, "size", None) == AUTO:
            raise ValueError(
                "model.size: auto chooses the size of a new model, and init gives one; leave it out"
            )
        self.task.check(self.model, self.data.record_type, self.training.evaluation.metric)
        if self.model.needs_trees:
            self.data.require_trees("model.position: syntax")
        return self


def _with_model(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the recipe's content with a model, of the task's default kind unless it has one."""
    model = content.get("model")
    model = {"size": AUTO} if model is None else model
    if not isinstance(model, Mapping) or "kind" in model:
        return content
    try:
        task = TaskSpec.model_validate(content.get("task") or {})
    except ValidationError:
        task = TaskSpec.model_validate({})  # the error is reported with its key
    return {**content, "model": {"kind": task.default_model, **model}}


Say = Callable[[str], None]


def read_recipe(
    path: Path | str, assignments: Sequence[str] = (), say: Say = lambda _: None
) -> Recipe:
    """Read a recipe from a YAML file.

    Args:
        path: The file.
        assignments: Overrides, each key=value, such as "training.steps=100".
        say: Called with a sentence if an override replaces another key: a budget of time
            replaces the steps, and steps the budget (default: ignored).

    Returns:
        The validated recipe.

    Raises:
        ConfigError: The file cannot be read, or the recipe is not valid.

    Example:
        >>> import regard
        >>> regard.read_recipe("recipe.yaml", ["training.steps=100"]).training.steps
        100
    """
    return make_recipe(read_yaml(Path(path)), assignments, str(path), say)


def make_recipe(
    content: dict[str, Any], assignments: Sequence[str], source: str, say: Say = lambda _: None
) -> Recipe:
    """Return a recipe from plain content with overrides; `source` is named in errors."""
    changed = _with_one_duration(override(content, assignments), assignments, source, say)
    return validate(Recipe, changed, source)


def _with_one_duration(
    content: dict[str, Any], assignments: Sequence[str], source: str, say: Say
) -> dict[str, Any]:
    """Return the content without the steps that an override by a budget replaces, or reverse."""
    training = content.get("training")
    assigned = {assignment.partition("=")[0] for assignment in assignments}
    for key, other in (("budget", "steps"), ("steps", "budget")):
        overridden = f"training.{key}" in assigned and f"training.{other}" not in assigned
        if not overridden or not isinstance(training, Mapping):
            continue
        replaced = training.get(other)
        if replaced is not None and training.get(key) is not None:
            say(
                f"training.{key}={training[key]} replaces training.{other}: {replaced} of {source}."
            )
            return {**content, "training": {**training, other: None}}
    return content
