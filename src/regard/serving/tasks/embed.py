"""Embed texts: a vector for each."""

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, Field, model_validator

from regard.serving.tasks.base import MAX_TEXTS, TaskContext

if TYPE_CHECKING:
    from regard.predictors.embedder import Embedder

PREDICTORS = ("Embedder",)
TEXTS_AT_ONCE = 64  # between checks that somebody waits for the vectors


class Arguments(BaseModel, extra="forbid"):
    """Texts that fit the model, or their ids with start and end token."""

    texts: list[str] = Field([], max_length=MAX_TEXTS)
    ids: list[Annotated[list[int], Field(min_length=1)]] = Field([], max_length=MAX_TEXTS)
    normalize: bool | None = None  # to length 1; None: as the model

    @model_validator(mode="after")
    def _either(self) -> Self:
        if bool(self.texts) == bool(self.ids):
            raise ValueError("give texts or ids")
        return self


class Result(BaseModel):
    """One vector for each text."""

    vectors: list[list[float]]
    input_tokens: int


def run(predictor: "Embedder", arguments: Arguments, context: TaskContext) -> Result:
    """Embed each text."""
    rows = arguments.ids or [
        predictor.encode_nonempty(text, number)
        for number, text in enumerate(arguments.texts, start=1)
    ]
    vectors: list[list[float]] = []
    for start in range(0, len(rows), TEXTS_AT_ONCE):
        context.check()
        part = rows[start : start + TEXTS_AT_ONCE]
        vectors += predictor.vectors_of_ids(part, normalize=arguments.normalize).tolist()
    return Result(vectors=vectors, input_tokens=sum(map(len, rows)))
