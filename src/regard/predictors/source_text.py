"""The part of a source that a model translates, and what is put around its translation unchanged.

White space, list markers and characters that training has never seen, such as emoji, are taken off
both ends. A text in capitals is translated in lower case, which the model knows better, and its
translation is capitalized.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.predictors.placeholders import PLACEHOLDER

LIST_MARKER = re.compile(r"(?:[-*•–—>#]+|\d{1,3}[.)])\s+")
MIN_CAPITALS = 5  # letters: NATO is a name


@dataclass(frozen=True)
class SourceText:
    """A source: the text for the model, and what stands around it."""

    text: str
    before: str = ""
    after: str = ""
    capitals: bool = False  # the text was in capitals
    copied: bool = False  # there is nothing to translate: no letter but those of links and the like

    @property
    def line(self) -> str:
        """The source with what stands around it."""
        return self.around(self.text)

    def around(self, translation: str) -> str:
        """Return a translation with what stands around the source."""
        return self.before + translation + self.after

    def restored(self, translation: str) -> str:
        """Return a translation as the source is written."""
        return self.around(translation.upper() if self.capitals else translation)


@dataclass(frozen=True)
class SourceHandling:
    """Treatment of texts that are not like those of training."""

    split_sentences: bool = False  # of a line, each of which is translated by itself
    lowercase_capitals: bool = False  # of a text in capitals, whose translation is capitalized
    restore_lost: bool = False  # decode again what lost a number, a link, a name or an emoji

    def source_text(self, text: str, tokenizer: Tokenizer) -> SourceText:
        """Return the part of a text for the model, and what stands around it."""
        if self == DEFAULT_HANDLING:
            return SourceText(text)
        source = without_edges(text, tokenizer)
        return in_lower_case(source, tokenizer) if self.lowercase_capitals else source


DEFAULT_HANDLING = SourceHandling()


def without_edges(text: str, tokenizer: Tokenizer) -> SourceText:
    """Take white space, a list marker and unseen characters off both ends of a text."""
    unknown = [] if text.isascii() else tokenizer.unknown_characters(text)
    unseen = "".join(character for character in unknown if not character.isascii())
    rest = _stripped(text, unseen, str.lstrip)
    if marker := LIST_MARKER.match(rest):
        rest = _stripped(rest[marker.end() :], unseen, str.lstrip)
    before, body = text[: len(text) - len(rest)], _stripped(rest, unseen, str.rstrip)
    copied = not any(map(str.isalpha, PLACEHOLDER.sub("", body)))
    return SourceText(body, before, rest[len(body) :], copied=copied)


def _stripped(text: str, unseen: str, strip: Callable[[str, str], str]) -> str:
    """Strip white space and unseen characters, in any order, off one end."""
    spaces = "".join(character for character in set(text) if character.isspace())
    return strip(text, unseen + spaces) if unseen + spaces else text


def in_lower_case(source: SourceText, tokenizer: Tokenizer) -> SourceText:
    """Return a text in capitals as a sentence in lower case, if that has fewer tokens."""
    letters = [character for character in source.text if character.isalpha()]
    if len(letters) < MIN_CAPITALS or not all(map(str.isupper, letters)):
        return source
    first = source.text.index(letters[0]) + 1
    text = source.text[:first] + source.text[first:].lower()
    if len(tokenizer.encode(text)) >= len(tokenizer.encode(source.text)):
        return source
    return replace(source, text=text, capitals=True)
