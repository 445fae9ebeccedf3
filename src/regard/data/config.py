"""The `data` section of a recipe: training, dev and test sources, filters and directions."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, field_validator, model_validator

from regard.config import Spec
from regard.data.datasets.reports import SILENT, Reports
from regard.data.direction import Direction
from regard.data.filters.config import FiltersSpec
from regard.data.filters.quality import fixed_encoding, reject_reason
from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import LabeledSpec, RecordType, SourceSpec
from regard.data.sources.labels import LabelsSpec

CHUNK = 4096  # characters of running text that go to train or dev together, in whole lines

Sources = tuple[SourceSpec, ...]


class Dropped(NamedTuple):
    """A record or a line that is not used: the reason, its number of lines, and its texts."""

    rejected: Rejected
    lines: int = 1
    texts: tuple[str, ...] = ()


class DataSpec(Spec):
    """data: {train: {kind: tsv, path: pairs.tsv, languages: [fr, en]}}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "without": "exclude",
        "held_out": "dev_size",
        "checks": "filters",
    }

    train: Sources = Field(..., description="training data: one source, or a list of them")
    dev: Sources | None = Field(None, description="data to evaluate on while training")
    test: Sources | None = Field(None, description="data to evaluate on at the end")
    exclude: Sources | None = Field(
        None, description="texts to remove from train, of any record type and however written"
    )
    dev_size: int = Field(
        1000, ge=0, description="without dev: number of training records to evaluate on instead"
    )
    directions: tuple[str, ...] | None = Field(
        None, description="translation directions, as in [fr-en]; default: all that train offers"
    )
    filters: FiltersSpec = Field(FiltersSpec(), description="which records to drop")
    prepared: Path = Field(Path("prepared"), description="folder for tokenized data")

    @field_validator("train", "dev", "test", "exclude", mode="before")
    @classmethod
    def _wrap_single_source(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, (list, tuple)) else (value,)

    @model_validator(mode="after")
    def _check_consistency(self) -> "DataSpec":
        for split, sources in self.splits.items():
            self._check_same_type(split, sources)
        if self.dev is None and self.dev_size == 0:
            raise ValueError("there is nothing to evaluate on: give dev, or dev_size above 0")
        self._check_directions()
        self._check_weights()
        return self

    def _check_weights(self) -> None:
        weights = [w if isinstance(w := source.weight, tuple) else (w,) for source in self.train]
        for epoch in range(max(map(len, weights))):
            if not any(of_source[min(epoch, len(of_source) - 1)] for of_source in weights):
                raise ValueError(f"all sources of train have the weight 0 in epoch {epoch + 1}")

    def _check_same_type(self, split: str, sources: Sources) -> None:
        if not sources:
            raise ValueError(f"{split} has no source")
        record_types = {source.record_type for source in (*self.train, *sources)}
        if len(record_types) > 1:
            raise ValueError(
                f"all sources must have one record type, and train and {split} have: "
                f"{', '.join(sorted(record_types))}"
            )
        if len(counts := {source.num_texts for source in (*self.train, *sources)}) > 1:
            raise ValueError(
                f"all records must have the same number of texts, and train and {split} have "
                f"sources with {' and '.join(map(str, sorted(counts)))} beside the label"
            )

    def _check_directions(self) -> None:
        available = [str(direction) for direction in self._available_directions()]
        for name in self.directions or ():
            if name not in available:
                known = ", ".join(available) or "none"
                raise ValueError(f"no source offers the direction {name}; there are: {known}")
        for split, sources in self.splits.items():
            for source in sources:
                directions = _directions(source)
                if directions and not set(directions) & set(self.translation_directions):
                    raise ValueError(
                        f"{split} has a source in {' and '.join(source.language_pair)}, and none "
                        f"of the directions is between them: remove it, or add a direction"
                    )

    @property
    def record_type(self) -> RecordType:
        """Record type of all sources."""
        return self.train[0].record_type

    @property
    def num_texts(self) -> int:
        """Number of texts in a record."""
        return self.train[0].num_texts

    @property
    def trees(self) -> bool:
        """True if all texts come with dependency trees."""
        return all(source.trees for sources in self.splits.values() for source in sources)

    def require_trees(self, needed_by: str) -> None:
        """Raise ValueError if a source has no dependency trees; `needed_by` is a recipe key."""
        if self.record_type != "labeled":
            raise ValueError(
                f"{needed_by} needs dependency trees, which only labeled texts have "
                f"(task: classification): choose another kind of position"
            )
        for split, sources in self.splits.items():
            for source in sources:
                if not source.trees:
                    raise ValueError(
                        f"{needed_by} needs dependency trees, and data.{split} has a source of "
                        f"kind {source.kind()} without them: use conllu, agreement or parsed"
                    )

    @property
    def labels(self) -> LabelsSpec:
        """Format of labels: that of the first source with several labels for a text, if any."""
        formats = [
            source.labels
            for sources in self.splits.values()
            for source in sources
            if isinstance(source, LabeledSpec)
        ]
        return next((labels for labels in formats if labels.several), LabelsSpec())

    @property
    def file_format(self) -> dict[str, Any] | None:
        """Settings that read another file like the training data: of a source of one file first."""
        formats = [source.file_format for source in self.train if source.file_format]
        return next(
            (settings for settings in formats if settings["kind"] not in ("files", "by-file")),
            formats[0] if formats else None,
        )

    @property
    def splits(self) -> dict[str, Sources]:
        """Sources of each split that the recipe has: train, dev, test."""
        splits = {"train": self.train, "dev": self.dev, "test": self.test}
        return {split: sources for split, sources in splits.items() if sources is not None}

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages of the training data, each once."""
        pairs = (source.language_pair for source in self.train)
        return tuple(dict.fromkeys(chain.from_iterable(pairs)))

    @property
    def translation_directions(self) -> tuple[Direction, ...]:
        """Directions to train, each once."""
        selected = self.directions
        return tuple(
            direction
            for direction in self._available_directions()
            if selected is None or str(direction) in selected
        )

    @property
    def source_directions(self) -> list[tuple[Direction, ...]]:
        """Directions in which each training source is trained."""
        trained = self.translation_directions
        return [
            tuple(direction for direction in _directions(source) if direction in trained)
            for source in self.train
        ]

    def _available_directions(self) -> tuple[Direction, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(map(_directions, self.train))))

    def fetch(self, reports: Reports = SILENT, *, download: bool = True) -> None:
        """Check the files of all data sets by name, and download those that are missing.

        Raises DataError for a file that is damaged or cannot be had.
        """
        for key, sources in {**self.splits, "exclude": self.exclude or ()}.items():
            for source in sources:
                source.fetch(f"data.{key}", reports, download=download)

    def records(self, source: SourceSpec) -> Iterator[Line]:
        """Yield every line of a source in order, repaired if the filters ask for it."""
        for line in source.records():
            if self.filters.fix_encoding and isinstance(line, Record):
                line = fixed_encoding(line)
            yield line

    def read(self, source: SourceSpec) -> Iterator[Record | Dropped]:
        """Yield every line of a source in order, filtered."""
        lines = self.records(source)
        if self.dev is None and self.record_type == "text":
            lines = chain.from_iterable(map(_chunks, lines))
        for line in lines:
            if isinstance(line, Rejected):
                yield Dropped(line)
            elif rejected := reject_reason(line, self.filters, self.record_type):
                yield Dropped(rejected, line.lines, line.texts)
            else:
                yield line


def source_name(source: SourceSpec) -> str:
    """Return the name of a source in the ledger: its file, or its kind where it has none."""
    files = source.files()
    if not files:
        return source.kind()
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0]}{more}"


def _directions(source: SourceSpec) -> tuple[Direction, ...]:
    if not source.language_pair:
        return ()
    first, second = source.language_pair
    both = Direction(first, second), Direction(second, first)
    return tuple(both[side] for side in source.source_sides)


def _chunks(line: Line) -> Iterator[Line]:
    """Cut a record of running text into chunks so small that a twentieth can become dev data."""
    if isinstance(line, Rejected):
        yield line
        return
    file, number = line.location
    rest = line.texts[0]
    while len(rest) > CHUNK and (end := rest.find("\n", CHUNK) + 1) not in (0, len(rest)):
        yield Record(Location(file, number), (rest[:end],), ends_document=False)
        number += rest.count("\n", 0, end)
        rest = rest[end:]
    yield Record(Location(file, number), (rest,), line.ends_document)
