"""Types of the details in model.json: the settings that the predictor of each task needs."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from regard.decoding.ranges import MAX_BEAM
from regard.errors import RunError
from regard.json_files import JsonSpec, validate_json
from regard.run_folder import Manifest, Run

MAX_LENGTH = 1 << 24  # tokens
MAX_NAMES = 1 << 16  # labels, directions, sentinels

Id = Annotated[int, Field(ge=0)]
Length = Annotated[int, Field(ge=1, le=MAX_LENGTH)]
Names = Annotated[list[Annotated[str, Field(max_length=1 << 10)]], Field(max_length=MAX_NAMES)]


class AdapterDetails(JsonSpec):
    """The base of an adapter run."""

    base: str = Field(min_length=1, max_length=1 << 12)  # path of its folder
    fingerprint: str = Field(max_length=1 << 8)
    spec: dict[str, Any]


class Details(JsonSpec):
    """Details of every task."""

    max_length: Length
    pad: Id | None = None
    start: Id | None = None
    end: Id | None = None
    adapter: AdapterDetails | None = None
    tokens_per_word: float | None = Field(None, gt=0)  # in the training text
    file_format: dict[str, Any] | None = None
    fix_encoding: bool = False
    scores: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)

    @field_validator("pad", "start", "end", "adapter", mode="before")
    @classmethod
    def _not_null(cls, value: object) -> object:
        if value is None:
            raise ValueError("has no value; give one, or leave out the key")
        return value


class TranslationDetails(Details):
    """Details of a translator."""

    directions: list[Annotated[str, Field(pattern=r"^[^→]+ → [^→]+$", max_length=1 << 8)]] = Field(
        min_length=1, max_length=MAX_NAMES
    )
    suppressed_tokens: list[Id] = Field([], max_length=MAX_NAMES)
    split_sentences: bool = False
    lowercase_capitals: bool = False
    restore_lost: bool = False
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM)] = 1


class SummarizationDetails(Details):
    """Details of a summarizer."""

    max_summary_tokens: Length
    truncate_source: Length | None


class LanguageModelDetails(Details):
    """Details of a language model."""

    bos: list[Id] = Field([], max_length=MAX_NAMES)
    other_ends: list[Id] = Field([], max_length=MAX_NAMES)


class ClassificationDetails(Details):
    """Details of a classifier."""

    labels: Names = Field(min_length=1)
    num_texts: Literal[1, 2] = 1
    label_format: dict[str, Any] = Field(default_factory=dict)
    temperature: float = Field(1.0, gt=0)
    tree_source: dict[str, Any] | None = None
    truncate: Literal["head", "tail", "both"] | None = None

    @field_validator("labels")
    @classmethod
    def _unique(cls, labels: list[str]) -> list[str]:
        if len(set(labels)) < len(labels):
            raise ValueError("a label is given twice")
        return labels


class EncoderDetails(Details):
    """Details of an imported encoder."""

    pooling: Literal["mean", "first", "max"] = "mean"
    normalize: bool = True


class SpanCorruptionDetails(Details):
    """Details of a span-corruption model."""

    sentinels: int = Field(ge=1, le=MAX_NAMES)


BY_TASK: dict[str, type[Details]] = {
    "translation": TranslationDetails,
    "summarization": SummarizationDetails,
    "language-model": LanguageModelDetails,
    "classification": ClassificationDetails,
    "encoder": EncoderDetails,
    "masked-lm": Details,
    "span-corruption": SpanCorruptionDetails,
}


def details_of(run: Run | Manifest, where: str) -> Details:
    """Return the details of a run, checked.

    Args:
        run: the run, or its model.json alone.
        where: the run's model.json, for the error message.

    Raises:
        RunError: the task is unknown, or a detail is missing or of the wrong type.
    """
    if run.task not in BY_TASK:
        raise RunError(
            f"{where}: holds a model for {run.task}, which this version does not know; update "
            f"Regard."
        )
    return validate_json(BY_TASK[run.task], run.details, where, section="details.")
