"""Translate a gettext catalog line by line, each message with all its placeholders or not at all.

A program may fail when it prints a translation without a %s of the source. A message whose
translation lacks a placeholder therefore stays untranslated, and is reported.
"""

import re
from collections.abc import Callable, Sequence

from regard.data.sources.gettext import Catalog
from regard.predictors.placeholders import missing_placeholders

LINE = re.compile(r"(?P<before>\s*)(?P<text>.*?)(?P<after>\s*)", re.DOTALL)

Translate = Callable[[Sequence[str]], Sequence[str]]  # as many lines out as in


def translate_catalog(catalog: Catalog, translate: Translate) -> tuple[bytes, list[str]]:
    """Translate the messages of a catalog that have no translation.

    Args:
        catalog: The catalog.
        translate: Translates lines.

    Returns:
        The bytes of the translated catalog, and the messages that stay untranslated.
    """
    messages = catalog.untranslated_texts()
    lines = list(dict.fromkeys(line for message in messages for line in _lines(message)))
    by_line = dict(zip(lines, translate(lines), strict=True))
    translations = {message: _translated(message, by_line) for message in messages}
    refused = [
        message for message in messages if missing_placeholders(message, translations[message])
    ]
    complete = {message: translations[message] for message in messages if message not in refused}
    return catalog.filled(complete), refused


def _lines(message: str) -> list[str]:
    """Return the lines of a message, without white space around them."""
    return [line for line in map(str.strip, message.split("\n")) if line]


def _translated(message: str, by_line: dict[str, str]) -> str:
    """Translate the lines of a message; white space around them stays."""
    matches = (LINE.fullmatch(line) for line in message.split("\n"))
    return "\n".join(
        match["before"] + by_line.get(match["text"], "") + match["after"]
        for match in matches
        if match
    )
