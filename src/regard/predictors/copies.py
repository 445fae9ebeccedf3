"""Parts of a source that a translation should contain unchanged: numbers, links, names, emoji.

A small model may lose them. Those that a translation lacks can be required when it is decoded again
(`decoding/lexical_constraints.py`).
"""

import re
from collections import Counter
from collections.abc import Iterator

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.predictors.placeholders import PLACEHOLDER

DIGITS = re.compile(r"\d+")
NAME = re.compile(r"(?<![\w'’.-])(?:\w{1,2}['’]|[Qq]u['’])?([^\W\d_][\w-]*)")
MIN_PIECES = 4  # of a name: one that training has seen often has fewer


def lost_copies(source: str, translation: str, tokenizer: Tokenizer) -> list[str]:
    """Return the numbers, links, names and unseen characters that a translation lacks."""
    lost = [part for part in _placeholders(source) if not _contains(translation, part)]
    lost += [name for name in _names(source, tokenizer) if name not in translation]
    if not source.isascii():
        unseen = tokenizer.unknown_characters(source)
        lost += [
            character
            for character in unseen
            if character not in translation and not character.isascii()
        ]
    return list(dict.fromkeys(lost))


def _placeholders(text: str) -> Iterator[str]:
    yield from (match[0] for match in PLACEHOLDER.finditer(text))


def _contains(translation: str, placeholder: str) -> bool:
    """Return whether a placeholder is there; of a number, its digits, however they are grouped."""
    if placeholder in translation:
        return True
    if not placeholder[0].isdigit():
        return False
    groups = DIGITS.findall(placeholder)
    present = Counter(DIGITS.findall(translation))
    thousands = all(len(group) == 3 for group in groups[1:])
    return Counter(groups) <= present or (thousands and "".join(groups) in present)


def _names(text: str, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield rare words with a capital letter, but for the first word of a text, which has one."""
    for match in NAME.finditer(text):
        word = match[1]
        inside = match.start() > 0 or any(map(str.isupper, word[1:]))
        if inside and word[0].isupper() and len(tokenizer.encode(word)) >= MIN_PIECES:
            yield word
