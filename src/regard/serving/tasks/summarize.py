"""Summarize texts."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from regard.serving.tasks.base import MAX_BEAM, MAX_TEXTS, TaskContext

if TYPE_CHECKING:
    from regard.predictors.summarizer import Summarizer

PREDICTORS = ("Summarizer",)


class Arguments(BaseModel, extra="forbid"):
    """Texts that fit the model."""

    texts: list[str] = Field(max_length=MAX_TEXTS)
    max_tokens: int | None = Field(None, ge=1)  # of a summary
    beam: int = Field(1, ge=1, le=MAX_BEAM)


class Summary(BaseModel):
    """Summary of one text."""

    text: str
    finished: bool  # False if the maximum length ended it
    input_tokens: int
    output_tokens: int


class Result(BaseModel):
    """One summary for each text."""

    summaries: list[Summary]


def run(predictor: "Summarizer", arguments: Arguments, context: TaskContext) -> Result:
    """Summarize each text."""
    from regard.decoding.config import DecodingConfig

    if arguments.max_tokens is not None:
        context.check_tokens(arguments.max_tokens)
    encode = predictor.tokenizer.encode
    candidates = predictor.candidates(
        arguments.texts,
        decoding=DecodingConfig(beam=arguments.beam),
        max_tokens=arguments.max_tokens,
    )
    return Result(
        summaries=[
            Summary(
                text=best.text,
                finished=best.finished,
                input_tokens=len(encode(text)),
                output_tokens=len(encode(best.text)),
            )
            for text, (best, *_) in zip(arguments.texts, candidates, strict=True)
        ]
    )
