"""Sections of a recipe for each task, fitted to a source of training data."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.data.config import CHUNK
from regard.data.languages import describe_language
from regard.data.recognition.pairs import PLACEHOLDERS
from regard.data.recognition.recognized import RecognizedSource
from regard.training.drafting.fit import CONTEXT, KEPT, Fit, fit_records, fit_running_text
from regard.training.drafting.layout import Commented

MAX_CLASSIFIED = 512  # tokens of a text that a classifier reads; longer ones are cut
MAX_SUMMARIZED = 500  # tokens of a text that a summarizer reads
USUAL_RATIO, RATIOS = 9, (20, 50, 100, 200, 500, 1000, 10_000)  # of the lengths of two texts
USUAL_CHARACTERS = 10_000  # of a text of a pair that filters keep
MAX_DEV, DEV_FRACTION = 1000, 20  # records held out: at most so many, and a twentieth of all
DROPOUT = 0.3  # of a classifier: a few thousand texts are memorized without it


@dataclass(frozen=True)
class TaskDraft:
    """Sections of one task: what is fitted to the data beside what every recipe has."""

    title: str
    task: Any
    dev_size: Commented
    model: str  # kind
    max_length: Commented
    data: Mapping[str, Any] = field(default_factory=dict)
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    epochs: int | None = None  # passes over the data that are enough


def translation(source: RecognizedSource, fit: Fit) -> TaskDraft:
    first, second = source.settings["languages"]
    direction = f"{first}-{second}"
    back = f"{second}-{first}"
    return TaskDraft(
        title=f"A translator from {_language(first)} to {_language(second)}",
        task="translation",
        dev_size=_dev_size(source.num_records, "pairs"),
        model="encoder-decoder",
        max_length=_max_length(fit, fit.max_length(), "longer pairs are dropped"),
        data={"directions": Commented([direction], f"add {back} to translate both ways")},
    )


def summarization(source: RecognizedSource, fit: Fit) -> TaskDraft:
    longest = fit.longest()
    task: Any = "summarization"
    max_length = _max_length(fit, fit.max_length(), "longer pairs are dropped")
    if longest > MAX_SUMMARIZED:
        cut = f"the model reads the first {MAX_SUMMARIZED} tokens of a text"
        task = {"kind": "summarization", "source": Commented(MAX_SUMMARIZED, cut)}
        max_length = Commented(512, "tokens: those of source, and two around them")
    filters = _filters(source)
    return TaskDraft(
        title="A summarizer",
        task=task,
        dev_size=_dev_size(source.num_records, "pairs"),
        model="encoder-decoder",
        max_length=max_length,
        data={"filters": filters} if filters else {},
    )


def classification(source: RecognizedSource, fit: Fit) -> TaskDraft:
    length = fit.max_length(together=True, most=MAX_CLASSIFIED)
    task: Any = "classification"
    max_length = _max_length(fit, length, "longer texts are dropped", together=True)
    if fit.longest(together=True) > MAX_CLASSIFIED:
        cut = Commented("both", "longer texts keep their beginning and end; or head, tail")
        task = {"kind": "classification", "truncate": cut}
        max_length = Commented(length, "tokens; attention to longer texts takes much more time")
    return TaskDraft(
        title="A classifier",
        task=task,
        dev_size=_dev_size(source.num_records, "texts"),
        model="classifier",
        max_length=max_length,
        model_settings={"dropout": Commented(DROPOUT, "against memorizing the texts; 0: none")},
        epochs=3,
    )


def language_model(source: RecognizedSource, _fit: Fit) -> TaskDraft:
    return TaskDraft(
        title="A language model",
        task="language-model",
        dev_size=_text_dev_size(source),
        model="language-model",
        max_length=Commented(CONTEXT, "tokens of context"),
        model_settings={"position": Commented("rotary", "or sinusoidal, learned, alibi …")},
        training=_without_smoothing("raises the perplexity of a language model"),
    )


def masked_lm(source: RecognizedSource, fit: Fit) -> TaskDraft:
    words = Commented(True, "mask all tokens of a word together")
    return TaskDraft(
        title="A masked language model",
        task={"kind": "masked-lm", "whole_words": words},
        dev_size=_text_dev_size(source),
        model="masked-lm",
        max_length=_text_length(source, fit),
        training=_without_smoothing("makes masked tokens harder to predict"),
    )


def span_corruption(source: RecognizedSource, fit: Fit) -> TaskDraft:
    return TaskDraft(
        title="A model that fills in spans of text",
        task="span-corruption",
        dev_size=_text_dev_size(source),
        model="encoder-decoder",
        max_length=_text_length(source, fit),
        training=_without_smoothing("makes missing tokens harder to predict"),
    )


@dataclass(frozen=True)
class Drafting:
    """Functions of a task: fit values to its source, write its sections."""

    fit: Callable[[RecognizedSource], Fit]
    sections: Callable[[RecognizedSource, Fit], TaskDraft]


TASKS: Mapping[str, Drafting] = {
    "translation": Drafting(fit_records, translation),
    "summarization": Drafting(fit_records, summarization),
    "classification": Drafting(fit_records, classification),
    "language-model": Drafting(fit_running_text, language_model),
    "masked-lm": Drafting(fit_records, masked_lm),
    "span-corruption": Drafting(fit_records, span_corruption),
}


def _dev_size(num_records: int, unit: str) -> Commented:
    size = max(1, min(MAX_DEV, num_records // DEV_FRACTION))
    return Commented(size, f"{unit} held out to evaluate on; or name a file, as in train: dev: …")


def _text_dev_size(source: RecognizedSource) -> Commented:
    if source.settings["documents"] == "line":
        return _dev_size(source.num_records, "lines")
    return _dev_size(source.num_characters // CHUNK, f"parts of {CHUNK:,} characters")


def _language(name: str) -> str:
    return "one language" if name in PLACEHOLDERS else describe_language(name)


def _max_length(fit: Fit, length: int, longer: str, *, together: bool = False) -> Commented:
    longest = fit.longest(together=together)
    reason = f"{KEPT:.1%} of the sample have at most about {longest:,}; {longer}"
    return Commented(length, f"tokens: {reason}")


def _text_length(source: RecognizedSource, fit: Fit) -> Commented:
    if source.settings["documents"] == "line":
        return _max_length(fit, fit.max_length(most=CONTEXT), "longer texts are cut into rows")
    return Commented(CONTEXT, "tokens of a row")


def _without_smoothing(why: str) -> dict[str, Any]:
    return {"label_smoothing": Commented(0, f"smoothing (default: 0.1) {why}")}


def _filters(source: RecognizedSource) -> dict[str, Any]:
    """Return the filters that keep a long text with its short summary."""
    filters: dict[str, Any] = {}
    ratios = sorted(len(text) / len(summary) for text, summary in source.texts)
    ratio = 2 * ratios[min(int(KEPT * len(ratios)), len(ratios) - 1)]
    if ratio > USUAL_RATIO:
        limit = next((limit for limit in RATIOS if ratio <= limit), RATIOS[-1])
        filters["max_ratio"] = Commented(limit, "a summary is much shorter than its text")
    longest = sorted(len(text) for text, _ in source.texts)[-max(1, len(source.texts) // 200)]
    if longest > USUAL_CHARACTERS:
        limit = 10_000 * math.ceil(2 * longest / 10_000)
        filters["max_characters"] = Commented(
            limit, "characters of a text; longer ones are dropped"
        )
    return filters
