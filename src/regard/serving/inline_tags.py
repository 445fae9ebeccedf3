"""Place the inline tags of a text in its translation: <b>, <a>, <span> …

    Le <b>chat noir</b> dort.  →  The <b>black cat</b> sleeps.

The text is translated as a whole. A tag at the border of a sentence stays at the border of its
translation. The text between tags inside a sentence, here "chat noir", is translated by itself too;
where exactly one place of the sentence's translation reads the same, the tags are put around it.
Otherwise the sentence is translated in pieces, from tag to tag: its grammar may suffer, but the
right words are in bold, and a link is on its own words.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

Escape = Callable[[str], str]
Segments = Sequence[tuple[str, str]]  # the sentences of a text, each with its translation
Pieces = Mapping[str, Sequence[str]]  # translations of each piece of a text, best first

LETTER = re.compile(r"[^\W\d_]")
WORDS = re.compile(r"\w.*\w|\w", re.DOTALL)  # without the punctuation around them
SPACES = re.compile(r"(\s*)(.*?)(\s*)", re.DOTALL)


class Span(NamedTuple):
    """Characters of a text, from `start` to before `end`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the characters."""
        return text[self.start : self.end]

    def moved(self, offset: int) -> "Span":
        """Return the span in a text with `offset` more characters before it."""
        return Span(self.start + offset, self.end + offset)

    def contains(self, other: "Span") -> bool:
        """Return whether all characters of the other span are in this one."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "Span") -> bool:
        """Return whether a character is in both spans."""
        return max(self.start, other.start) < min(self.end, other.end)


@dataclass(frozen=True)
class Element:
    """An inline element, or, without a closing tag, markup that is copied with its content."""

    span: Span  # of its content in the text
    opening: str
    closing: str = ""
    children: tuple["Element", ...] = ()


@dataclass(frozen=True)
class TaggedText:
    """A text without its markup, and the inline elements in it."""

    text: str
    elements: tuple[Element, ...] = ()

    def all_elements(self) -> list[Element]:
        """Return the elements and those inside of them."""
        elements = list(self.elements)
        for element in elements:  # grows
            elements += element.children
        return elements


def pieces_to_translate(tagged: TaggedText, translation: str, segments: Segments) -> list[str]:
    """Return the texts between tags inside sentences, which place the tags in a translation."""
    if not tagged.elements:
        return []
    copied = _copied(tagged)
    sentences = _cut(tagged, _aligned(tagged.text, translation, segments))
    pieces = [
        piece
        for sentence in sentences
        if len(sentence.pieces) > 1
        for piece in sentence.pieces
        if piece not in copied
    ]
    texts = (piece.of(tagged.text).strip() for piece in pieces)
    return [text for text in texts if LETTER.search(text)]


def place_tags(
    tagged: TaggedText, translation: str, segments: Segments, pieces: Pieces, escape: Escape
) -> str:
    """Return a translation with the inline elements of its source.

    Args:
        tagged: The source.
        translation: Its translation.
        segments: The sentences of both.
        pieces: Translations of the texts that `pieces_to_translate` returns.
        escape: Writes text as markup.
    """
    if not tagged.elements:
        return escape(translation)
    try:
        return _Placement(tagged, translation, segments, pieces).markup(escape)
    except _MisplacedError:
        in_pieces = _Placement(tagged, translation, segments, pieces, is_in_pieces=True)
        return in_pieces.markup(escape)


class _MisplacedError(Exception):
    """An element has no place in the translation, or one across another element."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence, its translation, and the pieces into which tags cut it."""

    span: Span
    translation: Span
    pieces: tuple[Span, ...]


class _Placement:
    """A translation, and the places of sentences and pieces of the source in it.

    Args:
        is_in_pieces: Sentences with tags inside are translated in pieces.
    """

    def __init__(
        self,
        tagged: TaggedText,
        translation: str,
        segments: Segments,
        pieces: Pieces,
        is_in_pieces: bool = False,
    ) -> None:
        self.tagged, self.pieces, self.is_in_pieces = tagged, pieces, is_in_pieces
        self.copied = _copied(tagged)
        self.sentences = _cut(tagged, _aligned(tagged.text, translation, segments))
        self.starts = [sentence.span.start for sentence in self.sentences]
        self.text = ""
        self.places: dict[Span, Span] = {}  # of sentences, and of pieces of those with tags inside
        end = 0
        for sentence in self.sentences:
            self.text += translation[end : sentence.translation.start]
            self._append(sentence, sentence.translation.of(translation))
            end = sentence.translation.end
        self.text += translation[end:]

    def _append(self, sentence: _Sentence, translation: str) -> None:
        """Append the translation of a sentence, and note the places of its pieces."""
        places: dict[Span, Span] = {}
        if len(sentence.pieces) > 1:
            located = None if self.is_in_pieces else self._located(sentence, translation)
            if located is None:
                translation, located = self._in_pieces(sentence)
            places = located
        offset = len(self.text)
        self.text += translation
        self.places |= {piece: place.moved(offset) for piece, place in places.items()}
        self.places[sentence.span] = Span(offset, len(self.text))

    def _located(self, sentence: _Sentence, translation: str) -> dict[Span, Span] | None:
        """Return the places of pieces in a translation; None if one inside of tags has none."""
        tagged = {
            piece
            for element in self.tagged.all_elements()
            if element.span.overlaps(sentence.span) and not element.span.contains(sentence.span)
            for piece in sentence.pieces
            if element.span.contains(piece)
        }
        places: dict[Span, Span] = {}
        for piece in sorted(sentence.pieces, key=lambda piece: piece not in tagged):
            place = self._place_in(translation, piece)
            if place is not None and not any(place.overlaps(other) for other in places.values()):
                places[piece] = place
            elif piece in tagged and piece.of(self.tagged.text).strip():
                return None
        return places

    def _place_in(self, translation: str, piece: Span) -> Span | None:
        """Return the only place in a translated sentence that reads as a piece of its source."""
        text = piece.of(self.tagged.text).strip()
        if piece in self.copied or not WORDS.search(text):
            return _only_match(re.escape(text), translation) if text else None
        sign = "" if text[-1].isalnum() else r"[^\w\s]*"  # punctuation after it
        for candidate in (*self.pieces.get(text, ()), text):
            if words := WORDS.search(candidate):
                pattern = rf"(?i:(?<!\w){re.escape(words[0])}(?!\w)){sign}"
                if place := _only_match(pattern, translation):
                    return place
        return None

    def _in_pieces(self, sentence: _Sentence) -> tuple[str, dict[Span, Span]]:
        """Return the translations of a sentence's pieces one after the other, and their places."""
        text, places = "", {}
        for piece in sentence.pieces:
            source = piece.of(self.tagged.text)
            translations = () if piece in self.copied else self.pieces.get(source.strip(), ())
            start = len(text)
            text += _as_piece(source, translations[0]) if translations else source
            places[piece] = Span(start, len(text))
        return text, places

    def markup(self, escape: Escape) -> str:
        """Return the translation with the elements.

        Raises:
            _MisplacedError: An element has no place, or one across another element.
        """
        whole = Span(0, len(self.text))
        return "".join(self._markup_of(whole, self.tagged.elements, escape))

    def _markup_of(self, place: Span, elements: Sequence[Element], escape: Escape) -> Iterator[str]:
        """Yield the parts of a place of the translation with the elements inside of it."""
        end = place.start
        placed = [(self._place_of(element.span), element) for element in elements]
        for own, element in sorted(placed, key=lambda item: item[0]):
            if own.start < end or own.end > place.end:
                raise _MisplacedError
            yield escape(self.text[end : own.start])
            yield element.opening
            if element.closing:
                yield from self._markup_of(own, element.children, escape)
                yield element.closing
            end = own.end
        yield escape(self.text[end : place.end])

    def _place_of(self, span: Span) -> Span:
        """Return the place of a span of the source."""
        inside: list[Span] = []
        outside: list[Span] = []
        for sentence in self._sentences_in(span):
            if span.contains(sentence.span):
                inside.append(self.places[sentence.span])
                continue
            for piece in sentence.pieces:
                if place := self.places.get(piece):
                    (inside if span.contains(piece) else outside).append(place)
        if not inside:
            position = self._position_of(span.start)
            return Span(position, position)
        own = Span(min(place.start for place in inside), max(place.end for place in inside))
        if any(own.overlaps(place) for place in outside):
            raise _MisplacedError
        return own

    def _sentences_in(self, span: Span) -> list[_Sentence]:
        """Return the sentences with a character in a span."""
        first, end = bisect_left(self.starts, span.start), bisect_left(self.starts, span.end)
        sentences = self.sentences[max(first - 1, 0) : end]
        return [sentence for sentence in sentences if sentence.span.overlaps(span)]

    def _position_of(self, position: int) -> int:
        """Return the place of a position between two characters of the source."""
        first = bisect_left(self.starts, position)
        for sentence in self.sentences[max(first - 1, 0) : first + 1]:
            if position <= sentence.span.start:
                return self.places[sentence.span].start
            if position == sentence.span.end:
                return self.places[sentence.span].end
            for before, after in pairwise(sentence.pieces):
                if position == before.end and before in self.places:
                    return self.places[before].end
                if position == after.start and after in self.places:
                    return self.places[after].start
            if position < sentence.span.end:
                raise _MisplacedError
        return len(self.text)


def _copied(tagged: TaggedText) -> set[Span]:
    """Return the spans of the content that is not translated."""
    return {element.span for element in tagged.all_elements() if not element.closing}


def _aligned(text: str, translation: str, segments: Segments) -> list[tuple[Span, Span]]:
    """Return the sentences of a text and of its translation; one of each if they are not in it."""
    sources = _spans(text, [source for source, _ in segments])
    targets = _spans(translation, [target for _, target in segments])
    if sources and targets:
        return list(zip(sources, targets, strict=True))
    return [(Span(0, len(text)), Span(0, len(translation)))]


def _spans(text: str, parts: Sequence[str]) -> list[Span] | None:
    """Return the spans of parts of a text, which are in it in this order; None if they are not.

    A text in capitals is translated in lower case; its parts are in lower case too.
    """
    spans: list[Span] = []
    end = 0
    for part in parts:
        starts = (text.find(form, end) for form in (part, part.upper()))
        start = next((start for start in starts if start >= 0), None)
        if start is None:
            return None
        end = start + len(part)
        spans.append(Span(start, end))
    return spans


def _cut(tagged: TaggedText, sentences: Sequence[tuple[Span, Span]]) -> list[_Sentence]:
    """Cut sentences where elements begin and end."""
    edges = sorted({edge for element in tagged.all_elements() for edge in element.span})
    cut = []
    for span, translation in sentences:
        inner = edges[bisect_left(edges, span.start + 1) : bisect_left(edges, span.end)]
        pieces = tuple(Span(*piece) for piece in pairwise((span.start, *inner, span.end)))
        cut.append(_Sentence(span, translation, pieces))
    return cut


def _only_match(pattern: str, text: str) -> Span | None:
    """Return the place of the only match of a pattern in a text; None if there is not just one."""
    places = [match.span() for match in re.finditer(pattern, text)]
    return Span(*places[0]) if len(places) == 1 else None


def _as_piece(source: str, translation: str) -> str:
    """Return a translation with the spaces of its source, and as a part of a sentence if it is."""
    match = SPACES.fullmatch(source)
    assert match is not None  # every part may be empty
    before, text, after = match.groups()
    words = translation.strip()
    if text[:1].islower() and words[:1].isupper() and words[1:2].islower():
        words = words[0].lower() + words[1:]
    if text[-1:].isalnum() and words[-2:-1].isalnum():
        words = words.removesuffix(".")
    return before + words + after
