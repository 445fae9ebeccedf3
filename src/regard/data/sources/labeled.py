"""A text file with columns, `text<TAB>label` or `text<TAB>text<TAB>label`, one example a line."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from regard.data.records import Line, Rejected
from regard.data.sources.base import LabeledSpec
from regard.data.sources.columns import Column
from regard.data.sources.table import Row, TableSpec


class Spec(TableSpec, LabeledSpec):
    """{kind: labeled, path: reviews.tsv}"""

    csv_kind: ClassVar[str] = "labeled-csv"

    columns: tuple[Column, ...] = Field(
        (0, 1),
        min_length=2,
        max_length=3,
        description="columns, from 0, of the text (or two texts) and, last, the label; with "
        "header, names too",
    )

    @property
    def num_texts(self) -> int:
        return len(self.columns) - 1

    @property
    def roles(self) -> tuple[str, ...]:
        texts = ("first text", "second text") if self.num_texts == 2 else ("text",)
        return (*texts, "label")

    def unlabeled(self) -> Iterator[Line]:
        names, rows = self.body()
        first = next((row.cells for row in rows if isinstance(row, Row)), names)
        has_only_texts = len(first) == self.num_texts and not isinstance(self.columns[0], str)
        return self.read_columns(range(self.num_texts) if has_only_texts else self.columns[:-1])

    def records(self) -> Iterator[Line]:
        for line in self.read_columns(self.columns):
            if isinstance(line, Rejected):
                yield line
            else:
                *texts, label = line.texts
                yield self.labeled_record(line.location, texts, label)
