"""Columns of Parquet files, the format of datasets on the Hugging Face hub.

A nested column has dots: `translation.fr` is the field `fr` of the column `translation`. Columns
are read as bytes and decoded here, so that invalid UTF-8 costs one row and not the file.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import PairSpec
from regard.data.sources.lines import decode_value
from regard.data.sources.paths import files_at, is_folder
from regard.errors import DataError
from regard.nearest import nearest_path

ROWS = 256  # in memory at a time: a few bytes of a dictionary can be megabytes in every row
NAMED = 20  # columns that an error names
TEXT = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


class Spec(PairSpec):
    """{kind: parquet, path: opus_books/, split: train, columns: [translation.fr, …], …}"""

    path: Path = Field(..., description="a file, or a folder: all .parquet files below it")
    split: str = Field("", description="only files or folders of this name, as train")
    columns: tuple[str, str] = Field(
        ..., description="column of each text; dots for nested columns"
    )

    def records(self) -> Iterator[Line]:
        for file in self.files():
            yield from read_parquet(file, self.columns)

    def files(self) -> list[Path]:
        files = files_at(self.path, "*.parquet")
        if not self.split or not is_folder(self.path):
            return files
        inside = [file.relative_to(self.path) for file in files]
        of_split = [self.path / file for file in inside if _is_of_split(self.split, file)]
        if not of_split:
            raise DataError(
                f"{self.path}: no Parquet file here is of the split '{self.split}'; the first is "
                f"{inside[0]}."
            )
        return of_split


def read_parquet(path: Path, columns: Sequence[str]) -> Iterator[Line]:
    """Yield a record for each row, with some hundred rows in memory at a time."""
    row = 0
    for batch in _batches(path, columns):
        for values in zip(*(_bytes(batch, column) for column in columns), strict=True):
            row += 1
            yield _record(values, Location(str(path), row), columns)


def text_columns(path: Path) -> list[str]:
    """Return the names of all columns of text in a file, with dots for nested ones."""
    with _opened(path) as file:
        return list(_text_fields(file.schema_arrow))


def _text_fields(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _text_fields(field.type, f"{prefix}{field.name}.")
        elif _is_text(field.type):
            yield f"{prefix}{field.name}"


def _is_text(kind: pa.DataType) -> bool:
    return (kind.value_type if pa.types.is_dictionary(kind) else kind) in TEXT


def _record(values: tuple[bytes | None, ...], location: Location, columns: Sequence[str]) -> Line:
    texts = []
    for column, value in zip(columns, values, strict=True):
        if value is None:
            return Rejected(location, "missing text", f"{column} is null")
        text = decode_value(value, location)
        if isinstance(text, Rejected):
            return text
        texts.append(text)
    return Record(location, tuple(texts))


def _batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with _opened(path) as file:
        for column in columns:
            _check_is_text(file.schema_arrow, column, path)
        yield from file.iter_batches(ROWS, columns=list(columns))


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        hint = nearest_path(path) or "."
        raise DataError(f"{path}: there is no such file or folder{hint}") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        message = " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as Parquet ({message}).") from None


def _check_is_text(schema: pa.Schema, column: str, path: Path) -> None:
    fields, kind = list(schema), pa.null()
    for part in column.split("."):
        types = {field.name: field.type for field in fields}
        if part not in types:
            names = " ".join(", ".join(list(types)[:NAMED]).split()) or "no columns"
            more = f" and {len(types) - NAMED:,} more" if len(types) > NAMED else ""
            raise DataError(
                f"{path}: there is no column {column}; instead of '{part}' there are: "
                f"{names}{more}."
            )
        if (count := sum(field.name == part for field in fields)) > 1:
            raise DataError(f"{path}: there are {count} columns {column}; rename one of them.")
        kind = types[part]
        fields = list(kind) if pa.types.is_struct(kind) else []
    if not _is_text(kind):
        raise DataError(f"{path}: the column {column} holds {kind} and not text.")


def _bytes(batch: pa.RecordBatch, column: str) -> list[bytes | None]:
    first, *nested = column.split(".")
    values = batch.column(first)
    for part in nested:
        values = pc.struct_field(values, part)
    values_list: list[bytes | None] = values.cast(pa.large_binary()).to_pylist()
    return values_list


def _is_of_split(split: str, file: Path) -> bool:
    """Return True for `train-00000-of-00002.parquet` and `train/0.parquet`, not for `training…`."""
    return split in file.parts or bool(re.match(rf"{re.escape(split)}(?!_?[A-Za-z])", file.name))
