"""Draft a recipe for recognized files: fit its values, choose the model's size, write it."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.recognition.recognize import RecognizedFiles
from regard.data.recognition.recognized import RecognizedSource
from regard.training import sizing
from regard.training.drafting.fit import LARGEST_BATCH, Fit
from regard.training.drafting.layout import Commented, Inline, render, values
from regard.training.drafting.tasks import TASKS, TaskDraft
from regard.training.recipe import make_recipe

DEFAULT_BUDGET = "20min"
MIN_STEPS, EVALUATIONS = 100, 10


def draft(data: RecognizedFiles, budget: str | None) -> str:
    """Return the recipe as YAML with comments.

    `budget` is the time to train, as 20min; None is the default, which is not used up where fewer
    passes over the data are enough.
    """
    fit = TASKS[data.task].fit(data.train)
    sections = TASKS[data.task].sections(data.train, fit)
    size, duration = _choose(data, fit, sections, budget)
    content = _content(data, fit, sections, size, duration)
    records = f"{data.train.num_records:,}"
    heading = (
        f"{sections.title}. Written by `regard init` for {_names(data.train)} ({records} lines);\n"
        f"every value may be changed. Paths are relative to the folder in which regard is called."
    )
    return render(content, heading)


def _choose(
    data: RecognizedFiles, fit: Fit, sections: TaskDraft, budget: str | None
) -> tuple[Commented, dict[str, Any]]:
    """Return the size that `size: auto` would be, and the duration of the training."""
    time = budget or DEFAULT_BUDGET
    content = values(_content(data, fit, sections, "auto", {"budget": time}))
    recipe = make_recipe(content, (), "the drafted recipe")
    chosen = sizing.with_chosen_size(recipe, fit.num_pieces, fit.tokens_per_epoch)
    data_size = f"{_count(fit.tokens_per_epoch)} tokens and {time}"
    size = Commented(
        values(getattr(chosen.model, "size", None)),
        f"the largest of tiny, small, base and big that fits {data_size}",
    )
    epochs = sizing.nominal_epochs(chosen, fit.num_pieces, fit.tokens_per_epoch)
    if budget is None and sections.epochs is not None and epochs > sections.epochs:
        batch = recipe.training.batch_tokens
        steps = max(MIN_STEPS, math.ceil(sections.epochs * fit.tokens_per_epoch / batch))
        every = Commented(max(1, steps // EVALUATIONS), "steps; the best weights are kept")
        reason = f"{sections.epochs} passes over the texts; or a time: budget: {time}"
        return size, {"steps": Commented(steps, reason), "evaluation": {"every": every}}
    return size, {"budget": Commented(time, "time to train, as 90s, 20min or 2h; more is better")}


def _content(
    data: RecognizedFiles, fit: Fit, sections: TaskDraft, size: Any, duration: Mapping[str, Any]
) -> dict[str, Any]:
    max_length = sections.max_length
    batch = fit.batch_tokens(max_length.value)
    batches = {"batch_tokens": Commented(batch, "tokens of a batch: many small updates")}
    return {
        "task": sections.task,
        "data": {
            "train": _source(data.train.settings),
            **{split: Inline(settings) for split, settings in data.splits.items()},
            **({} if "dev" in data.splits else {"dev_size": sections.dev_size}),
            **sections.data,
        },
        "tokenizer": _tokenizer(fit),
        "model": {
            "kind": sections.model,
            "size": size,
            "max_length": max_length,
            **sections.model_settings,
        },
        "training": {
            **duration,
            **(batches if batch != LARGEST_BATCH else {}),
            **sections.training,
        },
    }


COMMENTS = {
    "source": "one text a line",
    "target": "their translations, in the same lines",
    "columns": "of the texts, by number from 0 or by name",
    "keys": "of each object",
    "header": "the first line has the names of the columns",
    "separator": "between columns",
    "languages": "of the texts, in this order",
    "labels": "a text may have several",
    "encoding": "of the file; without this key UTF-8",
    "documents": "a document ends at the end of its file, line, or at blank lines (blank)",
    "classes": "a file of texts for each label",
    "lists": "a list is joined (sentences), or has versions of the text",
}


def _source(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a source with a comment for each key that may be changed."""
    commented = {
        key: Commented(value, COMMENTS[key]) if key in COMMENTS else value
        for key, value in settings.items()
    }
    if settings["kind"].startswith("labeled"):
        key = "keys" if "keys" in settings else "columns"
        what = "of the text (or two texts) and, last, the label"
        commented[key] = Commented(settings[key], what)
    return commented


def _tokenizer(fit: Fit) -> dict[str, Any]:
    comments = {
        "bpe": "subwords",
        "character": "every character is a token",
        "vocabulary": "pieces, at most; more for more text",
        "spaces": "every space and newline is kept",
    }
    return {
        key: Commented(value, comments[value if key == "kind" else key])
        for key, value in fit.tokenizer.items()
    }


def _names(source: RecognizedSource) -> str:
    settings = source.settings
    paths = settings.get("path") or settings.get("source") or list(settings["classes"].values())
    first = paths[0] if isinstance(paths, list) else paths
    return Path(first).name + (" and others" if isinstance(paths, list) else "")


def _count(tokens: int) -> str:
    """Return a number of tokens for people, rounded."""
    if tokens >= 1e6:
        return f"{tokens / 1e6:,.1f} million"
    return f"{math.ceil(tokens / 1000):,},000" if tokens >= 1000 else f"{tokens:,}"
