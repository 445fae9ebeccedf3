"""Translating a gettext catalog, line by line, with all its variables or not at all.

A program that prints a translation from which %s is missing may fail; so what came out without one
of the parts that must be kept stays untranslated, and is named.
"""

import re
from collections.abc import Callable, Sequence

from regard.data.sources.gettext import Catalog
from regard.predictors.placeholders import missing_placeholders

LINE = re.compile(r"(?P<before>\s*)(?P<text>.*?)(?P<after>\s*)", re.DOTALL)

Translate = Callable[[Sequence[str]], Sequence[str]]  # as many lines out as in


def fill(catalog: Catalog, translate: Translate) -> tuple[str, list[str]]:
    """The catalog with translations of what had none, and the texts that still have none."""
    texts = catalog.untranslated_texts()
    lines = list(dict.fromkeys(line for text in texts for line in _lines(text)))
    known = dict(zip(lines, translate(lines), strict=True))
    done = {text: _with(text, known) for text in texts}
    lost = [text for text in texts if missing_placeholders(text, done[text])]
    return catalog.filled({text: done[text] for text in texts if text not in lost}), lost


def _lines(text: str) -> list[str]:
    """What is to be translated of it: its lines, without the space around them."""
    return [line for line in map(str.strip, text.split("\n")) if line]


def _with(text: str, known: dict[str, str]) -> str:
    """The text with its lines translated; space around them is as it was."""
    parts = (LINE.fullmatch(line) for line in text.split("\n"))
    return "\n".join(
        part["before"] + known.get(part["text"], "") + part["after"] for part in parts if part
    )
