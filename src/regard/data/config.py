"""The data of a recipe: what is trained on, what is scored on, and what is asked of both."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, field_validator, model_validator

from regard.config import Spec
from regard.data.filters.checks import FiltersSpec, check
from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources.base import LabeledSpec, RecordType, SourceSpec
from regard.data.sources.labels import LabelsSpec

STRETCH = 4096  # characters of running text that are held out together, in whole lines

Sources = tuple[SourceSpec, ...]


class Direction(NamedTuple):
    """From which language into which."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


class Dropped(NamedTuple):
    """A record or a line that is not used: why, how many lines it is, and what it says."""

    why: Rejected
    lines: int = 1
    texts: tuple[str, ...] = ()


class DataSpec(Spec):
    """data: {train: {kind: tsv, path: pairs.tsv, languages: [fr, en]}}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "without": "exclude",
        "held_out": "dev_size",
        "checks": "filters",
    }

    train: Sources = Field(..., description="what to train on: one source, or a list of them")
    dev: Sources | None = Field(None, description="what to score on while training")
    test: Sources | None = Field(None, description="what to score on at the end")
    exclude: Sources | None = Field(
        None, description="texts that train must not have, however written; of any shape"
    )
    dev_size: int = Field(
        1000, ge=0, description="without dev: records of train that are kept from it to score on"
    )
    directions: tuple[str, ...] | None = Field(
        None, description="ways to translate, as in [fr-en]; all that train offers, unless said"
    )
    filters: FiltersSpec = Field(FiltersSpec(), description="what a record must be")
    prepared: Path = Field(Path("prepared"), description="the folder for text turned into ids")

    @field_validator("train", "dev", "test", "exclude", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, given: Any) -> Any:
        return given if given is None or isinstance(given, (list, tuple)) else (given,)

    @model_validator(mode="after")
    def _agree(self) -> "DataSpec":
        for part, sources in self.splits.items():
            if not sources:
                raise ValueError(f"{part} has no source")
            shapes = {source.record_type for source in (*self.train, *sources)}
            if len(shapes) > 1:
                raise ValueError(
                    f"all sources must be of one shape, and up to {part} there are: "
                    f"{', '.join(sorted(shapes))}"
                )
            if len(sides := {source.num_texts for source in (*self.train, *sources)}) > 1:
                raise ValueError(
                    f"all records must have as many texts, and up to {part} there are sources "
                    f"with {' and '.join(map(str, sorted(sides)))} beside the label"
                )
        if self.dev is None and self.dev_size == 0:
            raise ValueError("there is nothing to score on: give dev, or dev_size above 0")
        offered = [str(way) for way in self._offered()]
        for way in self.directions or ():
            if way not in offered:
                known = ", ".join(offered) or "none"
                raise ValueError(f"no source offers the direction {way}; there are: {known}")
        for part, sources in self.splits.items():
            for source in sources:
                if source.language_pair and not any(
                    way in self.translation_directions for way in _both_ways(source)
                ):
                    raise ValueError(
                        f"{part} has a source in {' and '.join(source.language_pair)}, and none of "
                        f"the directions is between them: remove it, or add a direction"
                    )
        return self

    @property
    def record_type(self) -> RecordType:
        return self.train[0].record_type

    @property
    def num_texts(self) -> int:
        """How many texts a record has."""
        return self.train[0].num_texts

    @property
    def trees(self) -> bool:
        """Do all texts come with their dependency trees?"""
        return all(source.trees for sources in self.splits.values() for source in sources)

    def require_trees(self, who: str) -> None:
        """Refuse a source that has none, where somebody needs them."""
        if self.record_type != "labeled":
            raise ValueError(
                f"{who} places words in dependency trees, which so far only texts with labels have "
                f"(task: classification): choose another kind of position"
            )
        for part, sources in self.splits.items():
            for source in sources:
                if not source.trees:
                    raise ValueError(
                        f"{who} places words in dependency trees, and data.{part} has a source of "
                        f"kind {source.kind()}, which has none: use conllu, agreement or parsed"
                    )

    @property
    def labels(self) -> LabelsSpec:
        """How labels are written: as in the first source that has several for a text, if any."""
        written = [
            source.labels
            for sources in self.splits.values()
            for source in sources
            if isinstance(source, LabeledSpec)
        ]
        return next((each for each in written if each.several), LabelsSpec())

    @property
    def splits(self) -> dict[str, Sources]:
        """The parts that are given, by name."""
        given = {"train": self.train, "dev": self.dev, "test": self.test}
        return {part: sources for part, sources in given.items() if sources is not None}

    @property
    def languages(self) -> tuple[str, ...]:
        """All languages of the training text, each once."""
        return tuple(
            dict.fromkeys(chain.from_iterable(source.language_pair for source in self.train))
        )

    @property
    def translation_directions(self) -> tuple[Direction, ...]:
        """The directions to train, each once."""
        return tuple(
            way for way in self._offered() if self.directions is None or str(way) in self.directions
        )

    def _offered(self) -> tuple[Direction, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(map(_both_ways, self.train))))

    def read(self, source: SourceSpec) -> Iterator[Record | Dropped]:
        """Every line of a source, in order."""
        lines: Iterator[Line] = source.records()
        if self.dev is None and self.record_type == "text":
            lines = chain.from_iterable(map(_stretches, lines))
        for line in lines:
            if isinstance(line, Rejected):
                yield Dropped(line)
            elif why := check(line, self.filters, self.record_type):
                yield Dropped(why, line.lines, line.texts)
            else:
                yield line


def name(source: SourceSpec) -> str:
    """What a source is called in the ledger: its file, or its kind where it has none."""
    files = source.files()
    if not files:
        return source.kind()
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return f"{files[0]}{more}"


def _both_ways(source: SourceSpec) -> tuple[Direction, ...]:
    if not source.language_pair:
        return ()
    first, second = source.language_pair
    return Direction(first, second), Direction(second, first)


def _stretches(line: Line) -> Iterator[Line]:
    """A record of running text as several: small enough that a twentieth can be held out."""
    if isinstance(line, Rejected):
        yield line
        return
    file, number = line.place
    rest = line.texts[0]
    while len(rest) > STRETCH and (end := rest.find("\n", STRETCH) + 1) not in (0, len(rest)):
        yield Record(Place(file, number), (rest[:end],), ends=False)
        number += rest.count("\n", 0, end)
        rest = rest[end:]
    yield Record(Place(file, number), (rest,), line.ends)
