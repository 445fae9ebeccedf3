"""What sources give: records with the place they come from, and lines that cannot be used."""

from dataclasses import dataclass
from typing import NamedTuple

from regard.data.sources.trees import Tree


class Place(NamedTuple):
    """Where a record stands: a file and a line in it, counted from 1 (a row, in Parquet)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Record:
    """One example as text: (sentence, translation), (text,), or one or two texts with labels."""

    place: Place
    texts: tuple[str, ...]
    ends: bool = True  # of a text cut into several records, only the last one ends it
    labels: tuple[str, ...] | None = None  # of labelled text: one, several or none
    tree: Tree | None = None  # of the first text, where its source has them
    others: tuple[str, ...] = ()  # of a pair: what might stand in the place of the second text

    @property
    def lines(self) -> int:
        """How many lines of its file it is: one, but of running text as many as it holds."""
        if len(self.texts) > 1 or self.labels is not None:
            return 1
        return self.texts[0].count("\n") + (not self.texts[0].endswith("\n"))


@dataclass(frozen=True)
class LengthLimits:
    """How a model takes the two sides of a pair, beside its limit."""

    max_first_text: int | None = None  # tokens: of a longer first side, only so many are read
    single_sequence: bool = (
        False  # both sides as one sequence, so that the limit is for both together
    )


SEPARATE = LengthLimits()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that cannot be an example: why in a word or two for the ledger, and what was found."""

    place: Place
    why: str  # "empty side", "invalid UTF-8" …: one of few, so that they can be counted
    found: str = ""  # "byte 12 is 0xff"


Line = Record | Rejected
