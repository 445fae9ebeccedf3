"""Base classes of sources: where text comes from, one file for each kind.

All sources yield records one by one, never all at once. The record type of a source is `pair` (a
sentence and its translation), `text` (running text) or `labeled` (one or two texts with labels). A
source rejects only lines that cannot be a record; the filters (`data/filters`) do the rest.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from regard.config import Kind, plain
from regard.data.datasets.reports import SILENT, Reports
from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.characters import quote
from regard.data.sources.encodings import Encoding
from regard.data.sources.labels import LabelsSpec
from regard.data.sources.trees import Tree

# Keys that say which files and lines are read, not how.
OF_THESE_FILES = (
    "path", "source", "target", "classes", "weight", "directions", "split", "fraction",
)  # fmt: skip

RecordType = Literal["pair", "text", "labeled"]
MAX_WEIGHT = 1000


def _check_weight(value: Any) -> Any:
    """Refuse what is neither a weight nor a list of weights, one for each epoch."""
    weights = value if isinstance(value, list | tuple) else [value]
    for weight in weights:
        if type(weight) not in (int, float) or not 0 <= weight <= MAX_WEIGHT:
            raise ValueError(f"a weight is a number from 0 to {MAX_WEIGHT:,}, not {weight!r}")
    if not any(weights):
        raise ValueError("a weight of 0 uses nothing of this source: leave the source out")
    return value


Weight = Annotated[float | tuple[float, ...], BeforeValidator(_check_weight)]


class SourceSpec(Kind, package="regard.data.sources"):
    """A kind of source."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {
        "labelled": "labeled",
        "labelled-jsonl": "labeled-jsonl",
    }

    record_type: ClassVar[RecordType] = "pair"
    trees: ClassVar[bool] = False  # True if every text has a dependency tree

    weight: Weight = Field(
        1.0,
        description="how often an epoch shows each record; 0.5: half of them; a list: in the "
        "first epoch, the second …, the last one in all later ones",
    )
    _dataset: "SourceSpec | None" = PrivateAttr(None)  # that this source reads a split of

    def as_written(self) -> "SourceSpec":
        return self._dataset or self

    @property
    def language_pair(self) -> tuple[str, ...]:
        """Languages of the two texts of a pair; empty for other record types."""
        return ()

    @property
    def source_sides(self) -> tuple[int, ...]:
        """Texts of a pair that are translated into the other in training, 0 or 1."""
        return (0, 1)

    @property
    def num_texts(self) -> int:
        """Number of texts in a record."""
        return 2 if self.record_type == "pair" else 1

    @property
    def version(self) -> str:
        """Version of text or trees that are computed: with another one, records may differ."""
        return ""

    @property
    def file_format(self) -> dict[str, Any] | None:
        """Settings that read another file like those of this source; None if it reads no text."""
        return None

    @property
    def terms(self) -> str:
        """License and citation of a data set by name, in a sentence; empty for other sources."""
        return self._dataset.terms if self._dataset is not None else ""

    def records(self) -> Iterator[Line]:
        """Yield every line of the source in order: a record, or why it cannot be one."""
        raise NotImplementedError

    def parse(self, text: str) -> Tree | None:
        """Return the dependency tree of a plain text, or None if this kind has no parser."""
        return None

    def files(self) -> list[Path]:
        """Return the files that are read: when one changes, prepared data is out of date."""
        return []

    def fetch(self, key: str, reports: Reports = SILENT, *, download: bool = True) -> None:
        """Check the files of a data set by name, and download those that are missing.

        `key` is the source's key in the recipe, for errors. Raises DataError for a file that is
        damaged, cannot be downloaded, or is missing and not to be downloaded.
        """
        if self._dataset is not None:
            self._dataset.fetch(key, reports, download=download)


class TextFileSpec(SourceSpec):
    """A kind of source that reads text files."""

    encoding: Encoding | None = Field(
        None, description="encoding of the text, as latin-1, cp1252 or utf-16; default: UTF-8"
    )

    @property
    def file_format(self) -> dict[str, Any] | None:
        settings = plain(self, as_written=False)
        return {key: value for key, value in settings.items() if key not in OF_THESE_FILES}


class PairSpec(SourceSpec):
    """A kind of source that yields pairs in two languages."""

    languages: tuple[str, str] = Field(..., description="language of each text, as in [fr, en]")
    directions: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="directions in which these pairs are trained, as in [fr-en], for text that was "
        "translated back; default: both",
    )

    @field_validator("languages", mode="before")
    @classmethod
    def _check_languages(cls, value: Any) -> Any:
        names = list(value) if isinstance(value, (list, tuple)) else []
        if any(name is False for name in names):
            raise ValueError("YAML reads a bare no as false; write Norwegian as 'no', in quotes")
        for name in names:
            if not re.fullmatch(r"[A-Za-z0-9_-]+", str(name)):
                raise ValueError(f"a language is named by letters, digits, - and _, not {name!r}")
        if len(names) == 2 and names[0] == names[1]:
            raise ValueError(f"a pair has two languages, and both of these are {names[0]!r}")
        return value

    @model_validator(mode="after")
    def _check_directions(self) -> Self:
        for name in self.directions or ():
            if name not in (known := self._both_directions):
                raise ValueError(
                    f"directions: {name!r} is not a direction of these pairs; there are: "
                    f"{', '.join(known)}"
                )
        return self

    @property
    def language_pair(self) -> tuple[str, ...]:
        return self.languages

    @property
    def source_sides(self) -> tuple[int, ...]:
        selected = self.directions or self._both_directions
        return tuple(side for side, name in enumerate(self._both_directions) if name in selected)

    @property
    def _both_directions(self) -> tuple[str, str]:
        first, second = self.languages
        return f"{first}-{second}", f"{second}-{first}"


class LabeledSpec(SourceSpec):
    """A kind of source whose records have labels in a field of their own."""

    record_type: ClassVar[RecordType] = "labeled"

    labels: LabelsSpec = Field(LabelsSpec(), description="format of the labels of a text")

    def unlabeled(self) -> Iterator[Line]:
        """Yield every line in order, whose label may be missing."""
        return self.records()

    def labeled_record(
        self, location: Location, texts: Sequence[str], value: str | Sequence[str]
    ) -> Line:
        """Return a record with the labels in `value`, or what is wrong with them."""
        labels = self.labels.read(value)
        if labels is None:
            return Rejected(location, "empty label", f"a label is missing in {quote(str(value))}")
        if len(labels) != 1 and not self.labels.several:
            detail = f"there are {len(labels)}; labels: {{separator: ','}} allows several"
            return Rejected(location, "not one label", detail)
        return Record(location, tuple(texts), labels=labels)
