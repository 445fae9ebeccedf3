"""Identify the languages of texts."""

from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from regard.serving.tasks.base import MAX_TEXTS, TaskContext
from regard.serving.text_languages import detect_languages

if TYPE_CHECKING:
    from regard.predictors.translator import Translator

PREDICTORS = ("Translator",)


class Arguments(BaseModel, extra="forbid"):
    """Texts in any language."""

    texts: list[str] = Field(max_length=MAX_TEXTS)


class Language(BaseModel):
    """A language that a text may be in."""

    language: str
    confidence: float  # 0 to 100


class Result(BaseModel):
    """Languages of each text, most probable first."""

    languages: list[list[Language]]


def run(predictor: "Translator", arguments: Arguments, context: TaskContext) -> Result:
    """Identify the languages of each text."""
    languages = []
    for text in arguments.texts:
        context.check()
        detected = detect_languages(predictor, text)
        languages.append([Language(language=code, confidence=c) for code, c in detected])
    return Result(languages=languages)
