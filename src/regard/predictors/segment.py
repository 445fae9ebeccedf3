"""Split a text that is too long for a model into segments that fit, without losing a character.

First between sentences; a sentence that is still too long at commas and similar punctuation; then
between words; a text without spaces between any two characters. Segments and the gaps between them,
concatenated, are the text.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

Fits = Callable[[str], bool]

ABBREVIATIONS = (
    "M", "MM", "Mr", "Dr", "Mrs", "Mme", "Mlle", "St", "Nr", "No", "etc", "z.B", "p.ex", "e.g",
)  # fmt: skip
NO_ABBREVIATION = "".join(rf"(?<!\b{re.escape(word)}\.)" for word in ABBREVIATIONS)
CLOSING = r"(?:\s?[»”]|[\"'’)\]])*"
# Capital letters, signs that begin a sentence, and emoji.
OPENING = r"[^\W\d_a-zß-ÿ]|[\d¿¡«“\"'(\[—–-]|[\u2600-\u27bf\U0001f000-\U0001faff]"
# Split points, the best first: white space after sentences, after punctuation, anywhere; any place.
SPLIT_POINTS = (
    re.compile(rf"(?<=[.!?…]){NO_ABBREVIATION}{CLOSING}(?P<gap>\s+)(?={OPENING})"),
    re.compile(r"(?<=[.!?…,;:)\]»”])(?P<gap>\s++)|(?<!\s)(?P<dash>\s++)(?=[—–(\[«“])"),
    re.compile(r"(?P<gap>\s+)"),
    re.compile(r"(?P<gap>)(?<=.)(?=.)", re.DOTALL),
)


class Segment(NamedTuple):
    """A part of a text, and the white space between it and the next."""

    text: str
    gap: str


def split_to_fit(text: str, fits: Fits, sentences: bool = False) -> list[Segment]:
    """Split a text into segments that fit: one if it fits, else at least one for each sentence.

    With `sentences`, a text that fits is split too.
    """
    if not sentences and fits(text):
        return [Segment(text, "")]
    parts = _split(SPLIT_POINTS[0], text)
    return [segment for sentence in parts for segment in _refine(sentence, fits, 1)]


def _refine(segment: Segment, fits: Fits, level: int) -> list[Segment]:
    """Split a segment that does not fit further, into parts as large as possible."""
    if fits(segment.text) or level == len(SPLIT_POINTS):
        return [segment]
    smaller = [
        part
        for piece in _split(SPLIT_POINTS[level], segment.text)
        for part in _refine(piece, fits, level + 1)
    ]
    smaller[-1] = smaller[-1]._replace(gap=segment.gap)
    return _merge(smaller, fits)


def _merge(segments: list[Segment], fits: Fits) -> list[Segment]:
    """Join neighbors for as long as they fit together."""
    merged = segments[:1]
    for segment in segments[1:]:
        longer = merged[-1].text + merged[-1].gap + segment.text
        if fits(longer):
            merged[-1] = Segment(longer, segment.gap)
        else:
            merged.append(segment)
    return merged


def _split(split_point: re.Pattern[str], text: str) -> list[Segment]:
    """Split at every match that leaves text on both sides."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())  # of all but white space
    gaps = [_gap(match) for match in split_point.finditer(text)]
    gaps = [gap for gap in gaps if gap[0] > first and gap[1] < last]
    edges = [(0, 0), *gaps, (len(text), len(text))]
    return [
        Segment(text[left[1] : right[0]], text[right[0] : right[1]])
        for left, right in pairwise(edges)
    ]


def _gap(match: re.Match[str]) -> tuple[int, int]:
    """Return the span of the white space: closing quotes stay with what they close."""
    name = next(name for name, part in match.groupdict().items() if part is not None)
    return match.span(name)
