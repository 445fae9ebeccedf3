"""Translate texts, or documents in HTML."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, Field

from regard.serving.alignment import Alignment, align_pairs, concatenated
from regard.serving.errors import Unprocessable
from regard.serving.tasks.base import MAX_BEAM, MAX_TEXTS, TaskContext
from regard.serving.text_languages import SURE, DetectedLanguage, detect_languages

if TYPE_CHECKING:
    from regard.predictors.translator import Translation, Translator

PREDICTORS = ("Translator",)
MAX_ALTERNATIVES = 16
PIECE_CANDIDATES = 4  # translations of a part of a sentence, to find where its tags go


class Arguments(BaseModel, extra="forbid"):
    """Texts of any length, and their languages."""

    texts: list[str] = Field(max_length=MAX_TEXTS)
    source: str | None = None  # language of all texts; None: detected for each
    to: str | None = None  # may be omitted where the source has one target
    beam: int | None = Field(None, ge=1, le=MAX_BEAM)
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES)
    html: bool = False
    stream: bool = False  # events {"index": number of the text, "text": next part}
    segments: bool = False
    alignment: bool = False  # of words; not of HTML


class Translated(BaseModel):
    """Translation of one text."""

    text: str
    alternatives: list[str]
    score: float | None  # log-probability by length; None for greedy decoding
    source: str  # language
    source_confidence: float  # 0 to 100
    to: str  # language
    finished: bool  # False if the maximum length ended it
    input_tokens: int
    output_tokens: int
    segments: list[tuple[str, str]] | None = None  # source and translation of each
    alignment: Alignment | None = None


class Result(BaseModel):
    """One translation for each text."""

    translations: list[Translated]


class _Direction(NamedTuple):
    """Languages of one text and its translation."""

    source: DetectedLanguage
    target: str

    @property
    def is_copy(self) -> bool:
        """True if the text is in the target language already."""
        return self.source.language == self.target and self.source.confidence >= SURE


def observes(arguments: Arguments) -> bool:
    """Return whether the alignment of words is asked for: the torch model computes it."""
    return arguments.alignment


def run(predictor: "Translator", arguments: Arguments, context: TaskContext) -> Result:
    """Translate each text; stream the translations, one after the other."""
    if arguments.html:
        from regard.serving.markup import check_markup

        check_markup(arguments.texts)
    request = _Request(predictor, arguments, context)
    directions = _directions(predictor, arguments)
    candidates = (
        [request.streamed(index, direction) for index, direction in enumerate(directions)]
        if arguments.stream
        else request.translated(directions)
    )
    return Result(
        translations=[
            request.described(text, direction, ranked)
            for text, direction, ranked in zip(arguments.texts, directions, candidates, strict=True)
        ]
    )


class _Request:
    """A request for translations: candidates of each text, best first."""

    def __init__(
        self, translator: "Translator", arguments: Arguments, context: TaskContext
    ) -> None:
        from regard.decoding.config import DecodingConfig

        self.translator, self.arguments, self.context = translator, arguments, context
        count = arguments.alternatives + 1
        beam = max(arguments.beam or translator.beam, count)
        self.decoding = DecodingConfig(beam=beam, n_best=count)

    def translated(self, directions: Sequence[_Direction]) -> "list[list[Translation]]":
        """Return the translations of all texts; those into one language are computed together."""
        results = [_copied(text) for text in self.arguments.texts]
        numbers_by_target = defaultdict(list)
        for number, direction in enumerate(directions):
            if not direction.is_copy:
                numbers_by_target[direction.target].append(number)
        for target, numbers in numbers_by_target.items():
            for number, ranked in zip(numbers, self._candidates(numbers, target), strict=True):
                results[number] = ranked
        return results

    def streamed(self, index: int, direction: _Direction) -> "list[Translation]":
        """Send the translation of a text as it is computed, and return it."""
        text, arguments = self.arguments.texts[index], self.arguments
        if direction.is_copy:
            parts: Iterable[Translation] = _copied(text)
        elif arguments.html or arguments.alternatives:
            (ranked,) = self._candidates([index], direction.target)
            self._emit(index, ranked[0].text)
            return ranked
        elif self.decoding.beam > 1 or arguments.segments or arguments.alignment:
            parts = self.translator.stream_segments(text, direction.target, self.decoding)
        else:
            parts = _unscored(self.translator.stream(text, direction.target))
        sent = []
        for part in parts:
            self._emit(index, part.text)
            sent.append(part)
        return [_joined(sent)]

    def described(
        self, text: str, direction: _Direction, ranked: "Sequence[Translation]"
    ) -> Translated:
        """Return the translations of one text with everything that was asked for."""
        best, *others = ranked
        encode = self.translator.tokenizer.encode
        return Translated(
            text=best.text,
            alternatives=[other.text for other in others],
            score=best.score if math.isfinite(best.score) else None,
            source=direction.source.language,
            source_confidence=direction.source.confidence,
            to=direction.target,
            finished=best.finished,
            input_tokens=len(encode(_plain(text, self.arguments.html))),
            output_tokens=len(encode(best.text)),
            segments=list(best.segments) if self.arguments.segments else None,
            alignment=self._alignment(best, direction) if self.arguments.alignment else None,
        )

    def _candidates(self, numbers: Sequence[int], target: str) -> "list[list[Translation]]":
        """Return the translations of some of the texts into one language."""
        texts = [self.arguments.texts[number] for number in numbers]
        translate = partial(self.translator.candidates, to=target, decoding=self.decoding)
        if not self.arguments.html:
            return translate(texts, names=[f"text {number + 1}" for number in numbers])
        from regard.decoding.config import DecodingConfig
        from regard.serving.markup import translate_markup

        several = DecodingConfig(beam=PIECE_CANDIDATES, n_best=PIECE_CANDIDATES)
        translate_pieces = partial(self.translator.candidates, to=target, decoding=several)
        return translate_markup(texts, translate, translate_pieces)

    def _alignment(self, best: "Translation", direction: _Direction) -> Alignment:
        pairs = best.segments
        return concatenated(align_pairs(self.translator, pairs, direction.target, self.context))

    def _emit(self, index: int, text: str) -> None:
        self.context.emit({"index": index, "text": text})


def _copied(text: str) -> "list[Translation]":
    """Return a text as its own translation."""
    from regard.predictors.translator import Translation

    return [Translation(text, math.nan, ((text, text),))]


def _unscored(pieces: Iterable[str]) -> "Iterator[Translation]":
    from regard.predictors.translator import Translation

    return (Translation(piece, math.nan) for piece in pieces)


def _joined(parts: "Sequence[Translation]") -> "Translation":
    """Return the translation of a text that was translated in parts."""
    from regard.predictors.translator import Translation

    text = "".join(part.text for part in parts)
    segments = tuple(segment for part in parts for segment in part.segments)
    return Translation(text, math.nan, segments, all(part.finished for part in parts))


def _directions(translator: "Translator", arguments: Arguments) -> list[_Direction]:
    """Return the languages of each text.

    Raises:
        Unprocessable: The model does not translate from the source language, or into the target.
        DataError: The target language is not clear.
    """
    if arguments.source is not None:
        own = _of_source(translator, arguments.source, arguments.to)
        return [own] * len(arguments.texts)
    to = arguments.to
    if to is not None and to not in translator.languages:
        raise _unknown(translator, "to", f"to {to}")
    return [_detected(translator, _plain(text, arguments.html), to) for text in arguments.texts]


def _of_source(translator: "Translator", source: str, to: str | None) -> _Direction:
    """Return the direction from a language that the client names."""
    targets = [own.target for own in translator.directions if own.source == source]
    if not targets:
        raise _unknown(translator, "source", f"from {source}")
    if to is None and len(targets) > 1:
        known = ", ".join(targets)
        raise Unprocessable(f"the target language is not clear: give one of {known}.", "to")
    target = targets[0] if to is None else to
    if target not in (*targets, source):
        raise _unknown(translator, "to", f"from {source} to {to}")
    return _Direction(DetectedLanguage(source, 100.0), target)


def _detected(translator: "Translator", text: str, to: str | None) -> _Direction:
    """Return the direction of a text whose language is detected."""
    detected = detect_languages(translator, text)
    target = to or translator.target_language(text)
    if detected[0].language == target and detected[0].confidence >= SURE:
        return _Direction(detected[0], target)
    sources = {own.source for own in translator.directions if own.target == target}
    source = next(own for own in detected if own.language in sources)
    return _Direction(source, target)


def _unknown(translator: "Translator", param: str, direction: str) -> Unprocessable:
    known = ", ".join(f"{own.source} → {own.target}" for own in translator.directions)
    return Unprocessable(
        f"this model does not translate {direction}; it translates {known}.", param
    )


def _plain(text: str, html: bool) -> str:
    if not html:
        return text
    from regard.serving.markup import visible_text

    return visible_text(text)
