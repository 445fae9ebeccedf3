"""Pairs of another source, edited: detokenized, as people type in haste, or with other numbers.

A model that is to understand French without accents is trained on such French, in the direction
from it; the English stays as it is:

    kind: edited
    source: {kind: dataset, name: tatoeba-fr-en, settings: {directions: [fr-en]}}
    sides: [fr]
    edits: [strip_accents]
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.data.datasets.reports import SILENT, Reports
from regard.data.records import Line, Record
from regard.data.sources.base import SourceSpec
from regard.data.sources.number_edits import random_numbers
from regard.data.sources.text_edits import (
    detokenize,
    lowercase,
    strip_accents,
    strip_final_punctuation,
)

Texts = tuple[str, ...]
EditName = Literal[
    "detokenize", "lowercase", "strip_accents", "strip_final_punctuation", "random_numbers"
]


def _each(edit: Callable[[str, str], str]) -> Callable[[Texts, Texts, Texts], Texts]:
    """Return the edit of a pair that edits its texts one by one, those of some languages."""

    def edited(texts: Texts, languages: Texts, sides: Texts) -> Texts:
        return tuple(
            edit(text, language) if language in sides else text
            for text, language in zip(texts, languages, strict=True)
        )

    return edited


# Functions of the texts, their languages, and the languages whose texts are edited.
EDITS: dict[EditName, Callable[[Texts, Texts, Texts], Texts]] = {
    "detokenize": _each(detokenize),
    "lowercase": _each(lowercase),
    "strip_accents": _each(strip_accents),
    "strip_final_punctuation": _each(strip_final_punctuation),
    "random_numbers": lambda texts, languages, _sides: random_numbers(texts, languages),
}


class Spec(SourceSpec):
    """{kind: edited, source: {kind: dataset, name: novels-fr-en}, edits: [detokenize]}"""

    source: SourceSpec = Field(..., description="source of the pairs, of any kind that has pairs")
    edits: tuple[EditName, ...] = Field(
        ..., min_length=1, description=f"edits, in this order: {', '.join(EDITS)}"
    )
    sides: tuple[str, ...] | None = Field(
        None, min_length=1, description="languages whose texts are edited (default: both)"
    )

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.source.record_type != "pair":
            raise ValueError("source: only pairs can be edited, and this source has none")
        if self.source.weight != 1:
            raise ValueError("source: give the weight beside the edits, not to the source in it")
        if self.sides and "random_numbers" in self.edits:
            raise ValueError("sides: random_numbers edits both texts; leave out sides")
        for language in self.sides or ():
            if language not in self.source.language_pair:
                known = " and ".join(self.source.language_pair)
                raise ValueError(f"sides: there is no text in {language!r}; there are: {known}")
        return self

    @property
    def language_pair(self) -> tuple[str, ...]:
        return self.source.language_pair

    @property
    def source_sides(self) -> tuple[int, ...]:
        return self.source.source_sides

    @property
    def version(self) -> str:
        return "1"  # of the edits

    @property
    def file_format(self) -> dict[str, Any] | None:
        return self.source.file_format

    @property
    def terms(self) -> str:
        return self.source.terms

    def records(self) -> Iterator[Line]:
        for line in self.source.records():
            if isinstance(line, Record):
                line = replace(line, texts=self._edited(line.texts))
            yield line

    def _edited(self, texts: Texts) -> Texts:
        for name in self.edits:
            texts = EDITS[name](texts, self.language_pair, self.sides or self.language_pair)
        return texts

    def files(self) -> list[Path]:
        return self.source.files()

    def fetch(self, key: str, reports: Reports = SILENT, *, download: bool = True) -> None:
        self.source.fetch(f"{key}.source", reports, download=download)
