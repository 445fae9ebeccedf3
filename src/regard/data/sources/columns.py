"""Columns of a table: their numbers and names, and what they look like, for warnings and errors."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from pydantic import AfterValidator

from regard.data.languages import is_language_name
from regard.data.sources.characters import quote

SAMPLE = 100  # rows that are looked at
MIN_SAMPLE = 5  # rows from which columns can be told apart
MAX_SHOWN = 8  # columns that an error shows
CELL = 30  # characters of a cell that an error shows
LONG_LABEL = 40  # characters on average, from which a column is one of texts
SHORT_TEXT = 2  # words of a first line that may be a header with any names

# Words in the names of columns: a line of nothing else, or of languages, is a header.
_COLUMN_NAME = re.compile(
    r"""\b( texts? | sentences? | reviews? | comments? | tweets? | content | message | body | title
    | headline | question | premise | hypothesis | document | article | summary | description
    | abstract | phrase | utterance | input | output | id | idx | index | labels? | class | category
    | target | sentiment | rating | score | stars | topic | tags? | intent | emotion | polarity
    | gold | source | src | tgt | trg | translation | original )[12]?\b""",
    re.VERBOSE | re.IGNORECASE,
)


def _check_column(column: int | str) -> int | str:
    if isinstance(column, int) and column < 0:
        raise ValueError(f"columns are counted from 0, and {column} is less")
    if column == "":
        raise ValueError("a column has a number from 0, or a name")
    return column


Column = Annotated[int | str, AfterValidator(_check_column)]


def show_columns(cells: Sequence[str], roles: Mapping[int, str] | None = None) -> str:
    """Return the columns of a line with their numbers, and what they are read as.

    0 'pos' (read as text), 1 'A fine film' (read as label)
    """
    shown = [f"{number} {quote(cell, CELL)}" for number, cell in enumerate(cells[:MAX_SHOWN])]
    for number, role in (roles or {}).items():
        if number < len(shown):
            shown[number] += f" (read as {role})"
    more = [f"{len(cells) - MAX_SHOWN} more"] if len(cells) > MAX_SHOWN else []
    return ", ".join(shown + more)


def looks_like_header(cells: Sequence[str], rare: Collection[str] = ()) -> bool:
    """Return True if the cells of a first line are names of columns.

    `rare` are the labels that one text has: as the last cell, one of them may be any name.
    """
    if all(map(_is_column_name, cells)):
        return True
    *texts, label = cells
    return label in rare and all(len(text.split()) <= SHORT_TEXT for text in texts)


def _is_column_name(cell: str) -> bool:
    words = cell.replace("_", " ")
    if is_language_name(cell):
        return True
    return len(words.split()) <= 3 and _COLUMN_NAME.search(words) is not None


def is_id_column(cells: Sequence[str]) -> bool:
    """Return True if all cells differ, have a digit and are short words: ids, not text."""
    return len(set(cells)) == len(cells) and all(
        re.fullmatch(r"\S{1,40}", cell) and re.search(r"\d", cell) for cell in cells
    )


def may_be_labels(cells: Sequence[str]) -> bool:
    """Return True if the cells are short and repeated, as labels are."""
    is_short = sum(map(len, cells)) < LONG_LABEL * len(cells)
    return is_short and len(set(cells)) <= len(cells) / 2


def advise_columns(rows: Sequence[Sequence[str]], columns: Sequence[int], labeled: bool) -> str:
    """Return which columns to read instead of `columns`, and why; empty if nothing is wrong."""
    rows = [row for row in rows if len(row) == len(rows[0])]
    likely = _likely_columns(rows, len(columns), labeled)
    if likely is None or likely == list(columns):
        return ""
    cells = list(zip(*rows, strict=True))
    ids = [column for column in columns if column < len(cells) and is_id_column(cells[column])]
    if ids:
        reason = f"column {ids[0]} looks like an id"
    elif sorted(likely) == sorted(columns):
        first, second = [
            column for column, other in zip(columns, likely, strict=True) if column != other
        ][:2]
        reason = f"columns {first} and {second} look swapped"
    elif labeled and likely[-1] != columns[-1]:
        reason = f"column {likely[-1]} looks like the label"
    else:
        return ""
    return f"{reason}: set columns: {likely}"


def _likely_columns(rows: Sequence[Sequence[str]], count: int, labeled: bool) -> list[int] | None:
    """Return the columns that look like the texts and, if labeled, the label; None if unclear."""
    if len(rows) < MIN_SAMPLE:
        return None
    cells = list(zip(*rows, strict=True))
    lengths = [sum(map(len, column)) / len(rows) for column in cells]
    candidates = [number for number, column in enumerate(cells) if not is_id_column(column)]
    labels = [number for number in candidates if may_be_labels(cells[number])]
    if labeled and not labels:
        return None
    label = [min(labels, key=lambda number: len(set(cells[number])))] if labeled else []
    texts = [number for number in candidates if number not in label]
    texts = sorted(sorted(texts, key=lambda number: -lengths[number])[: count - len(label)])
    return [*texts, *label] if len(texts) + len(label) == count else None
