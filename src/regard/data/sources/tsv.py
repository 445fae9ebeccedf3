"""A text file with columns, `sentence<TAB>translation`, one pair a line."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import PairSpec
from regard.data.sources.hash_split import OUTSIDE_SPLIT, HashSplitSpec
from regard.data.sources.lines import decode, stream_lines

Column = Annotated[int, Field(ge=0)]


class Spec(PairSpec):
    """{kind: tsv, path: pairs.tsv.gz, languages: [fr, en]}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"share": "split"}

    path: Path = Field(..., description="lines with tabs between columns; gzip or plain")
    columns: tuple[Column, Column] = Field((0, 1), description="columns of the two texts, from 0")
    split: HashSplitSpec | None = Field(
        None, description="read only lines whose key hashes into a range: {column, key, from, to}"
    )

    def records(self) -> Iterator[Line]:
        return read_columns(self.path, self.columns, self.split)

    def files(self) -> list[Path]:
        return [self.path]


def read_columns(
    path: Path, columns: Sequence[int], split: HashSplitSpec | None = None
) -> Iterator[Line]:
    """Yield columns as records; rejects a line whose width differs from that of the first."""
    width, last = 0, max(*columns, split.column if split else 0)
    for number, line in stream_lines(path):
        location = Location(str(path), number)
        text = decode(line, location)
        if isinstance(text, Rejected):
            yield text
            continue
        cells = text.split("\t")
        width = width or max(len(cells), last + 1)
        if len(cells) == width and split and not split.contains(cells[split.column]):
            yield Rejected(location, OUTSIDE_SPLIT)
        elif len(cells) == width:
            yield Record(location, tuple(cells[column] for column in columns))
        else:
            yield Rejected(location, "wrong columns", f"{len(cells)} instead of {width}")
