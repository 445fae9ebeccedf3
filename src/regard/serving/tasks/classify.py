"""Classify texts, or pairs of texts."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from regard.serving.tasks.base import MAX_TEXTS, TaskContext

if TYPE_CHECKING:
    from regard.predictors.classifier import Classifier, Prediction

PREDICTORS = ("Classifier",)
TEXTS_AT_ONCE = 64  # between checks that somebody waits for the labels


class Arguments(BaseModel, extra="forbid"):
    """Texts, or pairs for a model of pairs."""

    texts: list[str | tuple[str, str]] = Field(max_length=MAX_TEXTS)


class Label(BaseModel):
    """A label of a text."""

    label: str
    probability: float


class Result(BaseModel):
    """All labels of each text, the most likely first."""

    predictions: list[list[Label]]
    multi_label: bool  # a text may have several labels; their probabilities do not sum to 1
    input_tokens: int


def run(predictor: "Classifier", arguments: Arguments, context: TaskContext) -> Result:
    """Classify each text."""
    predictions: list[list[Label]] = []
    for start in range(0, len(arguments.texts), TEXTS_AT_ONCE):
        context.check()
        part = arguments.texts[start : start + TEXTS_AT_ONCE]
        names = [f"text {number}" for number in range(start + 1, start + len(part) + 1)]
        predictions += [ranked(prediction) for prediction in predictor.classify(part, names)]
    return Result(
        predictions=predictions,
        multi_label=predictor.multi_label,
        input_tokens=sum(len(predictor.encode(text)) for text in arguments.texts),
    )


def ranked(prediction: "Prediction") -> list[Label]:
    """Return the labels of a prediction, the most likely first."""
    by_probability = sorted(prediction.probabilities.items(), key=lambda item: -item[1])
    return [Label(label=label, probability=p) for label, p in by_probability]
