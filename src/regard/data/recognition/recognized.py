"""A source that was recognized: its settings in a recipe, a sample of its texts, and findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.recognition.columns import Column
from regard.data.recognition.tables import Table
from regard.errors import DataError


@dataclass(frozen=True)
class RecognizedSource:
    """A source of training data, with what a recipe is fitted to."""

    settings: Mapping[str, Any]  # of the source in a recipe
    texts: Sequence[tuple[str, ...]]  # of a sample of the records
    num_records: int
    num_characters: int  # of all texts, estimated from the sample
    findings: tuple[str, ...]  # about the file, a line each
    doubts: tuple[str, ...] = ()  # about what could not be recognized for certain


def from_columns(
    table: Table, kinds: Mapping[str, str], used: Sequence[Column], **further: Any
) -> dict[str, Any]:
    """Return the settings of a source that reads columns of a table.

    `kinds` maps the formats that the records can be read from to kinds of sources. Raises DataError
    for another format.
    """
    name = table.format.name
    if name not in kinds:
        raise DataError(
            f"{table.path}: records of this type cannot be read from {table.format}; convert the "
            f"file to JSON lines, CSV or tab-separated columns first."
        )
    keys = [column.key for column in used]
    settings: dict[str, Any] = {"kind": kinds[name], "path": table.path}
    if name == "csv" and table.format.separator != ",":
        settings["separator"] = table.format.separator
    if table.header:
        settings["header"] = True
    if name == "jsonl":
        settings["keys"] = keys
    elif name != "po":
        settings["columns"] = keys
    settings |= further
    if table.format.encoding:
        settings["encoding"] = table.format.encoding
    return settings


def sample_texts(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """Return the texts of the sampled records that have all of them."""
    rows = zip(*(column.cells for column in columns), strict=True)
    return [row for row in rows if all(text.strip() for text in row)]


def estimate_characters(texts: Sequence[tuple[str, ...]], num_records: int) -> int:
    """Return the number of characters of all records, from those of the sample."""
    characters = sum(len(text) for row in texts for text in row)
    return round(characters * num_records / max(len(texts), 1))


def describe(table: Table, roles: Mapping[str, str]) -> str:
    """Return a sentence on a table: its format, what its columns are, and which are not used.

    `roles` has what is read of each column, by the column's text.
    """
    used = [f"{name} is {role}" for name, role in roles.items()]
    unused = [column.unused() for column in table.columns if str(column) not in roles]
    parts = [str(table), ", ".join(used)]
    if unused:
        them = "is" if len(unused) == 1 else "are"
        parts.append(f"{', '.join(unused)}, and {them} not used")
    return f"{'; '.join(part for part in parts if part)}."
