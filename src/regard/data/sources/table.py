"""Tables: one record a line, in columns; the first line may be a header with their names."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import TextFileSpec
from regard.data.sources.columns import Column, show_columns
from regard.data.sources.hash_split import OUTSIDE_SPLIT, HashSplitSpec
from regard.data.sources.lines import decode, stream_lines
from regard.errors import DataError


class Row(NamedTuple):
    """A line of a table, split into its cells."""

    location: Location
    cells: list[str]


class TableSpec(TextFileSpec):
    """A kind of source that reads columns of a table, with tabs between them."""

    csv_kind: ClassVar[str] = ""  # the kind that reads the same records from CSV, if there is one

    path: Path = Field(..., description="lines with tabs between columns; gzip or plain")
    columns: tuple[Column, ...] = Field((0, 1), description="columns, from 0 or by name")
    header: bool = Field(
        False, description="the first line has the names of the columns, which `columns` may use"
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for column in self.columns:
            if isinstance(column, str) and not self.header:
                raise ValueError(
                    f"columns: {column!r} is a name, which needs header: true; without a header, "
                    f"columns are numbers from 0"
                )
        return self

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of what the columns are read as: text, label, fr …"""
        raise NotImplementedError

    @property
    def other_formats(self) -> dict[str, str]:
        """Settings that read a file with other separators between its columns, by separator."""
        if not self.csv_kind:
            return {}
        use = f"this looks like CSV: use kind: {self.csv_kind}"
        return {",": use, ";": f"{use} with separator: ';'"}

    def files(self) -> list[Path]:
        return [self.path]

    def rows(self) -> Iterator[Row | Rejected]:
        """Yield every line of the file, split into its cells."""
        for number, line in stream_lines(self.path, self.encoding):
            location = Location(str(self.path), number)
            text = decode(line, location)
            yield text if isinstance(text, Rejected) else Row(location, text.split("\t"))

    def body(self) -> tuple[list[str], Iterator[Row | Rejected]]:
        """Return the names in the header, none without a header, and the rows after it."""
        rows = self.rows()
        if not self.header:
            return [], rows
        header = next(rows, None)
        if header is None:
            raise DataError(f"{self.path}: is empty, and its first line is to be a header.")
        if isinstance(header, Rejected):
            raise header.error()
        return [name.strip() for name in header.cells], rows

    def positions(self, columns: Sequence[Column], names: Sequence[str]) -> list[int]:
        """Return the numbers of columns; raises DataError for one that the header does not have."""
        for column in columns:
            count = names.count(column) if isinstance(column, str) else 1
            if count != 1 or (names and isinstance(column, int) and column >= len(names)):
                problem = "there is no column" if count < 2 else f"{count} columns are named"
                advice = self.format_advice([names])
                raise DataError(
                    f"{self.path}, line 1: {problem} {column!r}; the columns are "
                    f"{show_columns(names)}{'; ' + advice if advice else ''}."
                )
        return [names.index(column) if isinstance(column, str) else column for column in columns]

    def read_columns(
        self, columns: Sequence[Column], split: HashSplitSpec | None = None
    ) -> Iterator[Line]:
        """Yield columns as records; rejects a line whose width differs from that of the first."""
        names, rows = self.body()
        *positions, key = self.positions([*columns, split.column if split else columns[0]], names)
        width = len(names)
        for row in rows:
            if isinstance(row, Rejected):
                yield row
                continue
            location, cells = row
            width = width or max(len(cells), *(position + 1 for position in (*positions, key)))
            if len(cells) != width:
                yield Rejected(
                    location, "wrong columns", self._wrong_width(cells, width, positions)
                )
            elif split and not split.contains(cells[key]):
                yield Rejected(location, OUTSIDE_SPLIT)
            else:
                yield Record(location, tuple(cells[position] for position in positions))

    def _wrong_width(self, cells: list[str], width: int, positions: Sequence[int]) -> str:
        roles = dict(zip(positions, self.roles, strict=False))
        advice = self.format_advice([cells])
        fix = f" ({advice})" if advice else ""
        return f"{len(cells)} instead of {width}{fix}: {show_columns(cells, roles)}"

    def format_advice(self, rows: Sequence[Sequence[str]]) -> str:
        """Return the settings that read rows of one cell which have other separators."""
        if not any(len(cells) > 1 for cells in rows):
            for separator, advice in self.other_formats.items():
                if all(separator in cell for cells in rows for cell in cells):
                    return advice
        return ""
