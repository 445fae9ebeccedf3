"""A text file with columns, `text<TAB>label` or `text<TAB>text<TAB>label`, one example a line."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from regard.data.records import Line, Rejected
from regard.data.sources.base import LabeledSpec
from regard.data.sources.tsv import Column, read_columns


class Spec(LabeledSpec):
    """{kind: labeled, path: reviews.tsv}"""

    path: Path = Field(..., description="lines with tabs between columns; gzip or plain")
    columns: tuple[Column, ...] = Field(
        (0, 1),
        min_length=2,
        max_length=3,
        description="columns, from 0, of the text (or two texts) and, last, the label",
    )

    @property
    def num_texts(self) -> int:
        return len(self.columns) - 1

    def records(self) -> Iterator[Line]:
        for line in read_columns(self.path, self.columns):
            if isinstance(line, Rejected):
                yield line
            else:
                *texts, label = line.texts
                yield self.labeled_record(line.location, texts, label)

    def files(self) -> list[Path]:
        return [self.path]
