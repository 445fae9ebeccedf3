"""Show the attention of a model on a text: the data of the page of `regard look`."""

from typing import Any

from pydantic import BaseModel, Field

from regard.missing_modules import required_by
from regard.serving.tasks.base import TaskContext

PREDICTORS = (
    "Translator",
    "Summarizer",
    "TextGenerator",
    "Classifier",
    "MaskFiller",
    "SpanFiller",
    "Embedder",
)
MAX_CHARACTERS = 20_000  # of a text
MAX_TITLE = 200


class Arguments(BaseModel, extra="forbid"):
    """A text to show, and another one to show beside it."""

    text: str = Field(max_length=MAX_CHARACTERS)
    compare: str | None = Field(None, max_length=MAX_CHARACTERS)
    to: str | None = Field(None, max_length=20, description="target language of a translator")
    output: str | None = Field(
        None, max_length=MAX_CHARACTERS, description="translation of the text to show"
    )
    title: str = Field("", max_length=MAX_TITLE)


class Result(BaseModel):
    """A history (`insight/picture.py`) of one snapshot, as plain data."""

    snapshots: list[dict[str, Any]]


def observes(_: Arguments) -> bool:
    """Return True: hooks record the attention of the torch model."""
    return True


def run(predictor: Any, arguments: Arguments, context: TaskContext) -> Result:
    """Run the model on each text with its attention recorded."""
    with required_by("attention"):
        from regard.insight.look import look
        from regard.insight.picture import History
    to, title = arguments.to, arguments.title
    pictures = [look(predictor, arguments.text, to, title, output=arguments.output)]
    if arguments.compare and arguments.compare.strip():
        context.check()
        pictures.append(look(predictor, arguments.compare, to, title))
    return Result.model_validate(History.of(*pictures).to_json())
