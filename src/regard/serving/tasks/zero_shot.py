"""Classify texts by labels that nobody trained, with a language model.

    template "{text} This is about {}."    text "The cat sleeps."    label "animals"

The score of a label is how much more likely the text makes the template with the label
(`predictors/zero_shot.py`). A label by itself is probable if the text raises its probability.
"""

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from regard.serving.errors import BadRequest
from regard.serving.tasks.base import MAX_TEXTS, TaskContext
from regard.serving.tasks.classify import Label, ranked

if TYPE_CHECKING:
    from regard.predictors.generator import TextGenerator
    from regard.predictors.zero_shot import ZeroShotClassifier

PREDICTORS = ("TextGenerator",)
DEFAULT_TEMPLATE = "This example is {}."
LABEL, TEXT = "{}", "{text}"
MAX_LABELS = 100


class Arguments(BaseModel, extra="forbid"):
    """Texts, and the labels to choose from."""

    texts: list[str] = Field(max_length=MAX_TEXTS)
    labels: list[str] = Field(min_length=2, max_length=MAX_LABELS)
    template: str = DEFAULT_TEMPLATE  # {} is the label, {text} the text, which else comes before it
    multi_label: bool = False  # each label by itself: the probabilities do not sum to 1


class Result(BaseModel):
    """All labels of each text, the most likely first."""

    predictions: list[list[Label]]
    input_tokens: int


def run(predictor: "TextGenerator", arguments: Arguments, context: TaskContext) -> Result:
    """Classify each text."""
    from regard.predictors.zero_shot import ZeroShotClassifier

    prompt, continuations = prompt_and_continuations(arguments.template, arguments.labels)
    classifier = ZeroShotClassifier(predictor, prompt, continuations)
    predictions = []
    for text in arguments.texts:
        context.check()
        if arguments.multi_label:
            predictions.append(_each_by_itself(classifier, text))
        else:
            predictions += map(ranked, classifier.classify([text]))
    tokens = sum(len(predictor.tokenizer.encode(text)) for text in arguments.texts)
    return Result(predictions=predictions, input_tokens=tokens)


def _each_by_itself(classifier: "ZeroShotClassifier", text: str) -> list[Label]:
    """Return each label with σ(score), where the score is 0 if the text changes nothing."""
    import numpy as np

    from regard.engine.numerics import log_sigmoid

    (scores,) = np.exp(log_sigmoid(classifier.score_matrix([text]))).tolist()
    labels = sorted(zip(classifier.labels, scores, strict=True), key=lambda item: -item[1])
    return [Label(label=label, probability=probability) for label, probability in labels]


def prompt_and_continuations(template: str, labels: list[str]) -> tuple[str, dict[str, str]]:
    """Return the template of the text, and the continuation of each label.

    Raises:
        BadRequest: The template has no place for the label, or the text comes after it.
    """
    before, label, after = template.partition(LABEL)
    if not label or TEXT in after:
        raise BadRequest(
            "the template has no {} in it, where the label goes, after the text.", "template"
        )
    if len(set(labels)) < len(labels):
        raise BadRequest("two labels are the same: give each once.", "labels")
    prompt = before.rstrip()
    space = before[len(prompt) :]
    if not prompt:
        prompt, space = TEXT, " "
    elif TEXT not in prompt:
        prompt = f"{TEXT} {prompt}"
    return prompt, {label: space + label + after for label in labels}
