"""Texts with blanks in them, as people write them: [MASK], <mask> or ___ for what is missing.

A tokeniser cuts a word by its neighbours and its space, so what stands around a blank cannot be cut
by itself: the whole text is, with a sign in each blank, and then the signs are taken out, with the
space that belongs to the missing word.
"""

import re
from dataclasses import dataclass

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.errors import DataError

BLANK = re.compile(r"\[MASK\]|<mask>|_{3,}", re.IGNORECASE)
HOW = "write [MASK], <mask> or ___ where something is missing"
SPACES = {" ", "▁", "Ġ", "<0x20>"}

# Punctuation, which every tokeniser keeps apart from words; the first that a text does not have.
_SIGNS = "‖‗⁂⁌⁍⁜⁕⁘⁙⁛"


@dataclass(frozen=True)
class Filling:
    """What may stand in a blank, and how likely it is."""

    text: str
    probability: float


def around_blanks(
    text: str, number: int, tokenizer: Tokenizer, borders: WordBoundaries
) -> list[list[int]]:
    """The ids before the first blank, between it and the next … and after the last.

    Without a blank they are one list.
    """
    blanks = len(BLANK.findall(text))
    if not blanks:
        return [tokenizer.encode(text)]
    sign = next((each for each in _SIGNS if each not in text), "")
    marked = BLANK.sub(sign, text)
    pieces = tokenizer.vocabulary()
    found: list[list[int]] = [[]]
    for each, start, end in tokenizer.located(marked):
        if sign not in marked[start:end]:
            found[-1].append(each)
        elif (passed := marked.count(sign, 0, end)) >= len(found):  # the first of its pieces
            if borders.hold_spaces and found[-1] and pieces[found[-1][-1]] in SPACES:
                found[-1].pop()
            found += [[] for _ in range(passed - len(found) + 1)]
    if not sign or len(found) != blanks + 1:
        raise DataError(f"text {number}: this model's tokeniser cannot tell where its blanks are.")
    return found


def require_blank(text: str, number: int) -> None:
    if not BLANK.search(text):
        raise DataError(f"text {number} has no blank: {HOW}.")
