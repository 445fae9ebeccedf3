"""A text file with columns, `sentence<TAB>translation`, one pair a line."""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import Field, model_validator

from regard.data.records import Line
from regard.data.sources.base import PairSpec
from regard.data.sources.columns import Column
from regard.data.sources.hash_split import HashSplitSpec
from regard.data.sources.table import TableSpec


class Spec(TableSpec, PairSpec):
    """{kind: tsv, path: pairs.tsv.gz, languages: [fr, en]}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"share": "split"}
    csv_kind: ClassVar[str] = "csv"

    columns: tuple[Column, Column] = Field(
        (0, 1), description="columns of the two texts, from 0; with header, names too"
    )
    split: HashSplitSpec | None = Field(
        None, description="read only lines whose key hashes into a range: {column, key, from, to}"
    )

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        if self.split and isinstance(self.split.column, str) and not self.header:
            raise ValueError("split: a column has a name only with header: true")
        return self

    @property
    def roles(self) -> tuple[str, ...]:
        return self.languages

    def records(self) -> Iterator[Line]:
        return self.read_columns(self.columns, self.split)
