"""Tables: the columns of a file of any format, with a sample that is spread evenly over it.

A file may be sorted, by length or by label, so its first lines do not represent it.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.data.recognition.columns import Column, is_number
from regard.data.recognition.formats import FileFormat
from regard.data.records import Record
from regard.data.sources import labeled, labeled_csv, po
from regard.data.sources.columns import SHORT_TEXT, looks_like_header, may_be_labels, show_columns
from regard.data.sources.lines import stream_lines
from regard.data.sources.table import Row
from regard.errors import DataError

SAMPLE = 2000  # records, at most twice as many
TICK = 10_000  # records between two reports of progress
MIN_WORDS = 5  # of texts on average, below which their header cannot be told from them

Advance = Callable[[int], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """A file in columns."""

    path: Path
    format: FileFormat
    header: bool
    columns: tuple[Column, ...]
    num_records: int

    def __str__(self) -> str:
        header = {"tsv": True, "csv": True}.get(self.format.name, False)
        parts = [
            str(self.format),
            *([("a" if self.header else "no") + " header"] if header else []),
        ]
        return f"{self.path}: {', '.join(parts)}, {self.num_records:,} {self._unit}"

    @property
    def _unit(self) -> str:
        units = {"tsv": "line", "jsonl": "line", "po": "text", "parquet": "row"}
        return units.get(self.format.name, "record") + "s" * (self.num_records != 1)

    def show(self) -> str:
        """Return the columns of a record, for errors."""
        return show_columns([column.cells[0] for column in self.columns])


def read_table(path: Path, file_format: FileFormat, advance: Advance = lambda _: None) -> Table:
    """Return the columns of a file; raises DataError if it has no records."""
    readers: Mapping[str, Callable[[Path, FileFormat, Advance], Table]] = {
        "jsonl": _read_objects,
        "parquet": _read_parquet,
        "po": _read_catalog,
    }
    table = readers.get(file_format.name, _read_rows)(path, file_format, advance)
    if not table.columns or not table.num_records:
        raise DataError(f"{path}: has no records ({file_format}); give a file with text.")
    return table


def spread(items: Iterable[T], advance: Advance = lambda _: None) -> tuple[list[T], int]:
    """Return at least SAMPLE items, or all, evenly spaced, and the number of all."""
    sample: list[T] = []
    stride, count = 1, 0
    for item in items:
        if count % stride == 0:
            sample.append(item)
            if len(sample) == 2 * SAMPLE:
                sample, stride = sample[::2], 2 * stride
        count += 1
        if count % TICK == 0:
            advance(TICK)
    return sample, count


def _read_rows(path: Path, file_format: FileFormat, advance: Advance) -> Table:
    settings: dict[str, Any] = {"path": path, "encoding": file_format.encoding}
    source: labeled.Spec = (
        labeled.Spec(**settings)
        if file_format.name == "tsv"
        else labeled_csv.Spec(separator=file_format.separator, **settings)
    )
    rows = (row.cells for row in source.rows() if isinstance(row, Row) and any(row.cells))
    sample, count = spread(rows, advance)
    width = Counter(map(len, sample)).most_common(1)[0][0] if sample else 0
    first, *rest = [cells for cells in sample if len(cells) == width] or [[]]
    header = sample[:1] == [first] and is_header(first, rest)
    cells = list(zip(*(rest if header else [first, *rest]), strict=True))
    names = [cell.strip() for cell in first] if header else [""] * width
    keys = [name if name and names.count(name) == 1 else i for i, name in enumerate(names)]
    columns = (Column(*column) for column in zip(keys, names, cells, strict=False))
    return Table(path, file_format, header, tuple(columns), count - header)


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Return True if the cells of a first line are names, and not like those of the other lines."""
    names = [cell.strip() for cell in first]
    if not rest or not all(names) or len({*names}) < len(names):
        return False
    if looks_like_header(names):
        return True
    if any(map(is_number, names)) or any(len(name.split()) > SHORT_TEXT for name in names):
        return False
    columns = list(zip(*rest, strict=True))
    is_known = any(looks_like_header([name]) for name in names)
    return (is_known and any(map(_is_prose, columns))) or any(map(_differs, names, columns))


def _is_prose(cells: Sequence[str]) -> bool:
    return sum(len(cell.split()) for cell in cells) >= MIN_WORDS * len(cells)


def _differs(name: str, cells: Sequence[str]) -> bool:
    """Return True if a name is of another kind than the cells below it."""
    if all(map(is_number, cells)):
        return True
    if may_be_labels(cells) and len({*cells}) > 1:
        return name not in cells
    return False


def _read_objects(path: Path, file_format: FileFormat, advance: Advance) -> Table:
    objects = (_object(line) for _, line in stream_lines(path, file_format.encoding))
    sample, count = spread((values for values in objects if values is not None), advance)
    keys = dict.fromkeys(key for values in sample for key in values)
    columns = (_object_column(key, [values.get(key) for values in sample]) for key in keys)
    return Table(path, file_format, False, tuple(columns), count)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return dict(_flat(content)) if isinstance(content, dict) else None


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _object_column(key: str, values: Sequence[Any]) -> Column:
    if any(isinstance(value, list) for value in values):
        lists = [list(map(str, value)) if isinstance(value, list) else [] for value in values]
        return Column(key, key, [" ".join(texts) for texts in lists], lists)
    return Column(key, key, ["" if value is None else str(value) for value in values])


def _read_parquet(path: Path, file_format: FileFormat, advance: Advance) -> Table:
    from regard.data.sources.parquet import read_parquet, text_columns  # pyarrow takes a while

    names = text_columns(path)
    if not names:
        return Table(path, file_format, False, (), 0)
    rows = (line.texts for line in read_parquet(path, names) if isinstance(line, Record))
    sample, count = spread(rows, advance)
    cells = zip(*sample, strict=True)
    columns = (Column(name, name, column) for name, column in zip(names, cells, strict=False))
    return Table(path, file_format, False, tuple(columns), count)


def _read_catalog(path: Path, file_format: FileFormat, advance: Advance) -> Table:
    source = po.Spec(path=path, languages=("source", "target"))
    texts = (line.texts for line in source.records() if isinstance(line, Record))
    sample, count = spread(texts, advance)
    columns = (Column(i, "", cells) for i, cells in enumerate(zip(*sample, strict=True)))
    return Table(path, file_format, False, tuple(columns), count)
