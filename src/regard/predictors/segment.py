"""A text that is too long for a model, cut where a reader would pause, so that nothing is lost.

At the ends of sentences; a sentence that is still too long at commas and the like; then between
words; and what has no spaces between any two characters. Pieces and the gaps between them, in
order, are the text.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

Fits = Callable[[str], bool]

# Where the text may be cut, the best places first: at white space after what is named.
SHORT = ("M", "MM", "Mr", "Dr", "Mrs", "Mme", "Mlle", "St", "Nr", "No", "etc", "z.B", "p.ex", "e.g")
NOT_SHORT = "".join(rf"(?<!\b{re.escape(each)}\.)" for each in SHORT)
CLOSING = r"(?:\s?[»”]|[\"'’)\]])*"
OPENING = r"[^\W\d_a-zß-ÿ]|[\d¿¡«“\"'(\[—–-]"  # a capital letter, or what a sentence may begin with
PAUSES = (
    re.compile(rf"(?<=[.!?…]){NOT_SHORT}{CLOSING}(?P<gap>\s+)(?={OPENING})"),
    re.compile(r"(?<=[.!?…,;:)\]»”])(?P<gap>\s+)|(?P<dash>\s+)(?=[—–(\[«“])"),
    re.compile(r"(?P<gap>\s+)"),
    re.compile(r"(?P<gap>)(?<=.)(?=.)", re.DOTALL),
)


class Piece(NamedTuple):
    text: str
    gap: str  # what stands between it and the next


def cut(text: str, fits: Fits) -> list[Piece]:
    """The text as pieces that fit: sentence by sentence, where all of it does not."""
    if fits(text):
        return [Piece(text, "")]
    return [piece for sentence in _at(PAUSES[0], text) for piece in _smaller(sentence, fits, 1)]


def _smaller(piece: Piece, fits: Fits, level: int) -> list[Piece]:
    """A piece cut further where it does not fit, into parts as large as possible."""
    if fits(piece.text) or level == len(PAUSES):
        return [piece]
    smaller = [
        each for part in _at(PAUSES[level], piece.text) for each in _smaller(part, fits, level + 1)
    ]
    smaller[-1] = smaller[-1]._replace(gap=piece.gap)
    return _packed(smaller, fits)


def _packed(parts: list[Piece], fits: Fits) -> list[Piece]:
    packed = parts[:1]
    for part in parts[1:]:
        longer = packed[-1].text + packed[-1].gap + part.text
        if fits(longer):
            packed[-1] = Piece(longer, part.gap)
        else:
            packed.append(part)
    return packed


def _at(pause: re.Pattern[str], text: str) -> list[Piece]:
    """Cut at every pause that leaves something on both sides."""
    spans = [_gap(found) for found in pause.finditer(text)]
    spans = [span for span in spans if text[: span[0]].strip() and text[span[1] :].strip()]
    borders = [(0, 0), *spans, (len(text), len(text))]
    return [
        Piece(text[before[1] : after[0]], text[after[0] : after[1]])
        for before, after in pairwise(borders)
    ]


def _gap(found: re.Match[str]) -> tuple[int, int]:
    """Where white space begins and ends: closing quotes stay with what they close."""
    name = next(name for name, part in found.groupdict().items() if part is not None)
    return found.span(name)
