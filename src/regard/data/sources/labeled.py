"""A text file with columns, `text<TAB>label` or `text<TAB>text<TAB>label`, one example a line."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from regard.data.records import Line, Rejected
from regard.data.sources.base import LabeledSpec
from regard.data.sources.columns import Column
from regard.data.sources.table import TableSpec


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

    def records(self) -> Iterator[Line]:
        for line in self.read_columns(self.columns):
            if isinstance(line, Rejected):
                yield line
            else:
                *texts, label = line.texts
                yield self.labeled_record(line.location, texts, label)
