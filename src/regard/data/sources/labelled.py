"""A text file with columns, `text<TAB>label`, one example a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from regard.data.records import Line
from regard.data.sources import Shape, SourceSpec
from regard.data.sources.tsv import Column, read_columns


class Spec(SourceSpec):
    """{kind: labelled, path: reviews.tsv}"""

    shape: ClassVar[Shape] = "labelled"

    path: Path = Field(..., description="lines with a tab between columns; gzip or plain")
    columns: tuple[Column, Column] = Field(
        (0, 1), description="where the text and its label are, from 0"
    )

    def records(self) -> Iterator[Line]:
        return read_columns(self.path, self.columns)

    def files(self) -> list[Path]:
        return [self.path]
