"""Translate a gettext catalog line by line, each message with all its placeholders or not at all.

A program may fail when it prints a translation without a %s of the source. A message whose
translation lacks a placeholder therefore stays untranslated, and is reported.
"""

import re
from collections.abc import Callable, Mapping, Sequence

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
    lines = lines_to_translate(catalog)
    return fill_catalog(catalog, dict(zip(lines, translate(lines), strict=True)))


def lines_to_translate(catalog: Catalog) -> list[str]:
    """Return the lines of the messages that have no translation, each once."""
    messages = catalog.untranslated_texts()
    return list(dict.fromkeys(line for message in messages for line in _lines(message)))


def fill_catalog(catalog: Catalog, translations: Mapping[str, str]) -> tuple[bytes, list[str]]:
    """Fill in the messages that have no translation.

    Args:
        catalog: The catalog.
        translations: Translations of the lines that `lines_to_translate` returns.

    Returns:
        The bytes of the translated catalog, and the messages that stay untranslated.
    """
    by_message = {
        message: _translated(message, translations) for message in catalog.untranslated_texts()
    }
    refused = [
        message for message, text in by_message.items() if missing_placeholders(message, text)
    ]
    complete = {message: text for message, text in by_message.items() if message not in refused}
    return catalog.filled(complete), refused


def _lines(message: str) -> list[str]:
    """Return the lines of a message, without white space around them."""
    return [line for line in map(str.strip, message.split("\n")) if line]


def _translated(message: str, by_line: Mapping[str, str]) -> str:
    """Translate the lines of a message; white space around them stays."""
    matches = (LINE.fullmatch(line) for line in message.split("\n"))
    return "\n".join(
        match["before"] + by_line.get(match["text"], "") + match["after"]
        for match in matches
        if match
    )
