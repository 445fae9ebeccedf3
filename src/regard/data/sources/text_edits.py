"""Edits of a text that a training source may ask for: joining of tokens, and typing habits."""

import re
from itertools import cycle
from unicodedata import combining, normalize

_QUOTES = (re.compile(r'\s*"\s*'), re.compile(r"\s+'\s+"))
_JOINED_LEFT = re.compile(r"\s+([,.)\]}…]|-\w|'(?:s|m|d|re|ve|ll|t)\b|n't\b)")
_JOINED_RIGHT = re.compile(r"([(\[{]|\b(?:\w{1,2}|[\w-]*qu)[’'])\s+", re.IGNORECASE)
_ENGLISH_PUNCTUATION = re.compile(r" +([?!;:])")
_FINAL_PUNCTUATION = re.compile(r"\s*[.!?…]+\s*$")


def detokenize(text: str, language: str) -> str:
    """Join punctuation, contractions and elisions of tokenized text to their words.

    French keeps the space before ? ! ; : as it is printed; other languages have none.
    """
    text = _JOINED_RIGHT.sub(r"\1", f" {text} ")
    for quotes in _QUOTES:
        text = _joined_quotes(quotes, text)
    text = _JOINED_LEFT.sub(r"\1", text)
    if language != "fr":
        text = _ENGLISH_PUNCTUATION.sub(r"\1", text)
    return " ".join(text.split())


def _joined_quotes(quotes: re.Pattern[str], text: str) -> str:
    """Join quotation marks to the text between them; they open and close in turn."""
    formats = cycle((" {}", "{} "))
    return quotes.sub(lambda match: next(formats).format(match[0].strip()), text)


def lowercase(text: str, _language: str) -> str:
    """Write the whole text in lower case."""
    return text.lower()


def strip_accents(text: str, _language: str) -> str:
    """Remove the accents of all letters, as people type on a foreign keyboard."""
    letters = normalize("NFD", text)
    plain = "".join(letter for letter in letters if not combining(letter))
    return plain.replace("œ", "oe").replace("Œ", "Oe").replace("’", "'")


def strip_final_punctuation(text: str, _language: str) -> str:
    """Remove the mark at the end of a sentence; a text of nothing else stays."""
    return _FINAL_PUNCTUATION.sub("", text) or text
