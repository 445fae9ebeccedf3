"""Advice on the settings of a table, from its first rows: for errors, and as warnings."""

from collections.abc import Collection, Iterator
from itertools import islice

from regard.data.sources.base import SourceSpec
from regard.data.sources.columns import (
    MIN_SAMPLE,
    SAMPLE,
    advise_columns,
    is_id_column,
    looks_like_header,
    show_columns,
)
from regard.data.sources.table import Row, TableSpec


def explain_columns(source: SourceSpec) -> str:
    """Return how the first line of a table is read, and the likely fix; empty for other sources."""
    if not isinstance(source, TableSpec):
        return ""
    rows, positions = _first_rows(source)
    if not rows:
        return ""
    roles = dict(zip(positions, source.roles, strict=True))
    cells = [row.cells for row in rows]
    advice = source.format_advice(cells) or _advise(source, rows, positions)
    shown = f"line {rows[0].location.line} has the columns {show_columns(cells[0], roles)}"
    return f"{shown}; {advice}" if advice else shown


def table_warnings(source: SourceSpec, rare_labels: Collection[str] = ()) -> Iterator[str]:
    """Yield what looks wrong in the first rows of a table: a header, or ids instead of texts.

    `rare_labels` are the labels that one text has.
    """
    if not isinstance(source, TableSpec):
        return
    rows, positions = _first_rows(source)
    rows = [row for row in rows if len(row.cells) > max(positions)]
    if not rows:
        return
    first = [rows[0].cells[position].strip() for position in positions]
    is_first_line = not source.header and rows[0].location.line == 1
    if is_first_line and looks_like_header(first, rare_labels):
        yield (
            f"{rows[0].location}: '{' | '.join(first)}' looks like a header but is read as a "
            f"record; set header: true for this source."
        )
        rows = rows[1:]
    for position, role in zip(positions, source.roles, strict=True):
        cells = [row.cells[position] for row in rows]
        if len(cells) >= MIN_SAMPLE and is_id_column(cells):
            advice = _advise(source, rows, positions) or "is this the right column?"
            yield f"{source.path}: column {position} is read as {role}; {advice}."
            return


def _advise(source: TableSpec, rows: list[Row], positions: list[int]) -> str:
    labeled = source.record_type == "labeled"
    return advise_columns([row.cells for row in rows], positions, labeled)


def _first_rows(source: TableSpec) -> tuple[list[Row], list[int]]:
    """Return the first rows after the header, and the numbers of the columns that are read."""
    names, rows = source.body()
    first = islice((row for row in rows if isinstance(row, Row)), SAMPLE)
    return list(first), source.positions(source.columns, names)
