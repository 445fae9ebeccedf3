"""Records that sources yield, with their location, and lines that cannot be used."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from regard.data.sources.trees import Tree
from regard.data.truncation import Keep
from regard.errors import DataError


class Location(NamedTuple):
    """Location of a record: a file and a line in it, counted from 1 (a row, in Parquet)."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Record:
    """One example as text: (sentence, translation), (text,), or one or two texts with labels."""

    location: Location
    texts: tuple[str, ...]
    ends_document: bool = True  # False for all but the last of the records that a text is cut into
    labels: tuple[str, ...] | None = None  # of labeled text: one, several or none
    tree: Tree | None = None  # dependency tree of the first text, where the source has trees
    alternatives: tuple[str, ...] = ()  # of a pair: other references for the second text

    @property
    def lines(self) -> int:
        """Number of lines of the file: 1, but for running text as many as the text has."""
        if len(self.texts) > 1 or self.labels is not None:
            return 1
        return self.texts[0].count("\n") + (not self.texts[0].endswith("\n"))


@dataclass(frozen=True)
class LengthLimits:
    """Limits on the texts of a record, beside the model's maximum length."""

    max_first_text: int | None = None  # tokens; a longer first text is truncated
    single_sequence: bool = False  # both texts are one sequence: the maximum length is for both
    truncate: Keep | None = None  # which part of a labeled text is kept if it is too long


SEPARATE = LengthLimits()


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that cannot be an example.

    `reason` is one of a few fixed phrases ("empty side", "invalid UTF-8" …), which the ledger
    counts; `detail` says what was found ("byte 12 is 0xff").
    """

    location: Location
    reason: str
    detail: str = ""
    tokens: int = 0  # of a record with more tokens than the model takes

    def error(self) -> DataError:
        """Return the error for a reader that accepts no rejected line."""
        return DataError(f"{self.location}: {self.reason} ({self.detail}); fix the line.")


Line = Record | Rejected


def require_records(lines: Iterable[Line]) -> Iterator[Record]:
    """Yield the records; raises DataError at the first rejected line."""
    for line in lines:
        if isinstance(line, Rejected):
            raise line.error()
        yield line
