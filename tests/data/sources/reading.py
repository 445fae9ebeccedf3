"""Read sources in tests."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, settings

from regard.config import validate
from regard.data.records import Line, Record
from regard.data.sources.base import SourceSpec

FR_EN = {"languages": ["fr", "en"]}
COLUMNS = {"columns": ["fr", "en"], **FR_EN}
any_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def source(**spec: Any) -> SourceSpec:
    """Return a source of this spec."""
    return validate(SourceSpec, spec, "recipe")


def read(**spec: Any) -> list[Line]:
    """Return all lines of a source."""
    return list(source(**spec).records())


def pairs(**spec: Any) -> list[tuple[str, ...]]:
    """Return the texts of all records of a source that must reject no line."""
    lines = read(**spec)
    assert all(isinstance(line, Record) for line in lines), lines
    return [line.texts for line in lines if isinstance(line, Record)]


def write(path: Path, content: str | bytes) -> str:
    """Write a file and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def table(*texts: tuple[str | None, str]) -> pa.Table:
    """Return a table with the columns id, fr and en."""
    return pa.table(
        {"id": range(len(texts)), "fr": [a for a, _ in texts], "en": [b for _, b in texts]}
    )


def parquet(path: Path, content: pa.Table) -> str:
    """Write a Parquet file with several row groups and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path, row_group_size=3)
    return str(path)
