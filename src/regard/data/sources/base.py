"""Where text comes from, one file a kind. All give records, one after the other, never all at once.

A source has a shape: `pair` (a sentence and its translation), `text` (running text) or `labeled`
(a text, or two, and its labels). What is read is checked elsewhere (`checks.py`); a source rejects
only what it cannot make a record of.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from regard.config import Kind
from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources.labels import LabelsSpec
from regard.data.sources.trees import Tree

RecordType = Literal["pair", "text", "labeled"]


class SourceSpec(Kind, package="regard.data.sources"):
    """A kind of source."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {
        "labelled": "labeled",
        "labelled-jsonl": "labeled-jsonl",
    }

    record_type: ClassVar[RecordType] = "pair"
    trees: ClassVar[bool] = False  # has every text its dependency tree?

    weight: float = Field(
        1.0, gt=0, le=1000, description="how many times an epoch shows each record; 0.5 = half"
    )

    @property
    def language_pair(self) -> tuple[str, ...]:
        """The language of each side of a pair; none for other shapes."""
        return ()

    @property
    def num_texts(self) -> int:
        """How many texts a record has."""
        return 2 if self.record_type == "pair" else 1

    def records(self) -> Iterator[Line]:
        """Every line of the source, in order: a record, or why it cannot be one."""
        raise NotImplementedError

    def tree(self, text: str) -> Tree | None:
        """Of a text that comes without one, where this kind can tell."""
        return None

    def files(self) -> list[Path]:
        """The files that are read: when one of them changes, what was made of it is out of date."""
        return []


class PairSpec(SourceSpec):
    """A kind of source that gives pairs in two languages."""

    languages: tuple[str, str] = Field(..., description="the language of each side, as in [fr, en]")

    @field_validator("languages", mode="before")
    @classmethod
    def _two_names(cls, given: Any) -> Any:
        names = list(given) if isinstance(given, (list, tuple)) else []
        if any(name is False for name in names):
            raise ValueError("YAML takes a bare no for false; write Norwegian as 'no', in quotes")
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", str(name)):
                raise ValueError(f"a language is named by letters, digits, - and _, not {name!r}")
        if len(names) == 2 and names[0] == names[1]:
            raise ValueError(f"a pair has two languages, and both of these are {names[0]!r}")
        return given

    @property
    def language_pair(self) -> tuple[str, ...]:
        return self.languages


class LabeledSpec(SourceSpec):
    """A kind of source whose records have their labels written beside them."""

    record_type: ClassVar[RecordType] = "labeled"

    labels: LabelsSpec = Field(LabelsSpec(), description="how the labels of a text are written")

    def labelled(self, place: Place, texts: Sequence[str], written: str | Sequence[str]) -> Line:
        """A record, or what is wrong with its labels."""
        labels = self.labels.read(written)
        if labels is None:
            return Rejected(place, "empty label", f"a label is missing in {written!r}")
        if len(labels) != 1 and not self.labels.several:
            found = f"there are {len(labels)}; labels: {{separator: ','}} lets a text have several"
            return Rejected(place, "not one label", found)
        return Record(place, tuple(texts), labels=labels)
