"""Format of a file, recognized by its content: the name of a file decides only what is unclear."""

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from regard.data.sources.columns import looks_like_header
from regard.data.sources.encodings import UNKNOWN, guess_narrow, guess_wide
from regard.data.sources.lines import GZIP, stream_lines
from regard.errors import DataError
from regard.nearest import cannot_be_read

START = 2**13  # bytes by which text and other data are told apart
LINES = 2000  # lines by which the format of a text is recognized
MOST = 0.9  # fraction of the lines that must have a format
SEPARATORS = ",;|"
MIN_RECORDS = 3  # from which columns without quotes and header are believed

FormatName = Literal["tsv", "csv", "jsonl", "parquet", "po", "text"]

_NO_TEXT: dict[bytes, str] = {
    b"PK\x03\x04": "a zip archive or an office document; extract its text, or save a table as CSV",
    b"%PDF": "a PDF; extract its text first, as with pdftotext",
    b"\x89PNG": "a PNG image; give a file of text",
    b"\xff\xd8\xff": "a JPEG image; give a file of text",
    b"BZh": "compressed with bzip2; decompress it first (bzip2 -dk)",
    b"\xfd7zXZ": "compressed with xz; decompress it first (xz -dk)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it first (zstd -d)",
    b"SQLite format": "an SQLite database; export a table as CSV first",
    b"ARROW1": "an Arrow file; save it as Parquet or CSV first",
}


@dataclass(frozen=True)
class FileFormat:
    """Format of a file: its name, the separator of CSV, and an encoding other than UTF-8."""

    name: FormatName
    separator: str = "\t"
    encoding: str | None = None

    def __str__(self) -> str:
        names = {
            "tsv": "tab-separated",
            "jsonl": "JSON lines",
            "parquet": "Parquet",
            "po": "a gettext catalog",
            "text": "plain text",
        }
        quoted = {"\t": "tab-separated with quotes", ",": "CSV"}
        name = names.get(self.name) or quoted.get(self.separator, f"CSV with {self.separator!r}")
        return f"{name}, {self.encoding}" if self.encoding else name


def recognize_format(path: Path) -> FileFormat:
    """Return the format of a file; raises DataError if it is empty, no text, or damaged."""
    start = _first_bytes(path)
    if start.startswith(b"PAR1"):
        return FileFormat("parquet")
    encoding = _encoding(path, start)
    head = [line for _, line in islice(stream_lines(path, encoding, keep_ends=True), LINES)]
    if not any(line.strip() for line in head):
        raise DataError(f"{path}: is empty; give a file with text.")
    if encoding is None and (guess := guess_narrow(head)):
        if guess is UNKNOWN:
            raise DataError(
                f"{path}: is neither UTF-8 nor Latin-1; convert it to UTF-8 first, as with "
                f"`iconv -f CP1251 -t UTF-8`."
            )
        encoding = guess.setting
        head = [line.decode(encoding, "replace").encode() for line in head]
    lines = [line.decode("utf-8", "replace") for line in head]
    name, separator = _text_format(path, lines)
    return FileFormat(name, separator, encoding)


def _first_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            start = file.read(START)
        if not start.startswith(GZIP):
            return start
        with gzip.open(path, "rb") as content:
            return content.read(START)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return b""  # reported by the reader of lines
    except OSError as error:
        raise DataError(cannot_be_read(path, error)) from None


def _encoding(path: Path, start: bytes) -> str | None:
    """Return UTF-16 where the first bytes are; raises DataError where they are no text."""
    for magic, problem in _NO_TEXT.items():
        if start.startswith(magic):
            raise DataError(f"{path}: is {problem}.")
    if guess := guess_wide(start):
        return guess.setting
    if b"\0" in start:
        raise DataError(f"{path}: is not text but binary data; give a file of text.")
    return None


def _text_format(path: Path, lines: Sequence[str]) -> tuple[FormatName, str]:
    filled = [line.rstrip("\n") for line in lines if line.strip()]
    if _is_catalog(filled):
        return "po", ""
    if _is_json(path, filled):
        return "jsonl", ""
    if _most_have_tabs(filled):
        return ("csv", "\t") if _is_quoted(filled, "\t") else ("tsv", "\t")
    for separator in SEPARATORS:
        if _is_csv(path, lines, separator):
            return "csv", separator
    return "text", ""


def _is_catalog(lines: Sequence[str]) -> bool:
    return any(line.startswith("msgid ") for line in lines) and any(
        line.startswith("msgstr") for line in lines
    )


def _is_json(path: Path, lines: Sequence[str]) -> bool:
    """Return True for JSON lines; raises DataError for JSON in another layout."""
    objects = sum(line.lstrip().startswith("{") and _parses(line) for line in lines)
    if objects >= MOST * len(lines):
        return True
    if lines[0].lstrip()[:1] in ("[", "{") and path.name.removesuffix(".gz").endswith(".json"):
        raise DataError(
            f"{path}: is JSON, but not one object in each line; convert it first: "
            f"`jq -c '.[]' {path.name} > {path.stem}.jsonl`."
        )
    return False


def _parses(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _most_have_tabs(lines: Sequence[str]) -> bool:
    widths = Counter(line.count("\t") for line in lines)
    tabs, count = widths.most_common(1)[0]
    return tabs > 0 and count >= MOST * len(lines)


def _is_quoted(lines: Sequence[str], separator: str) -> bool:
    """Return True if cells are in quotes as CSV has them: every line has an even number."""
    cells = [cell for line in lines for cell in line.split(separator)]
    quoted = sum(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    opened = sum(cell.startswith('"') for cell in cells)
    return quoted > 0 and (
        quoted >= MOST * len(cells) or (opened == quoted and _has_doubled(cells))
    )


def _has_doubled(cells: Sequence[str]) -> bool:
    return any('""' in cell[1:-1] for cell in cells if cell.startswith('"'))


def _is_csv(path: Path, lines: Sequence[str], separator: str) -> bool:
    records = list(_csv_records(lines, separator))
    if len(records) > 1 and len(lines) == LINES:
        records.pop()  # which may be cut
    widths = Counter(len(record) for record in records if record)
    if not widths:
        return False
    width, count = widths.most_common(1)[0]
    if width < 2 or count < MOST * sum(widths.values()):
        return False
    if path.name.casefold().removesuffix(".gz").endswith(".csv"):
        return True
    believable = len(records) >= MIN_RECORDS and count == sum(widths.values())
    quoted = any(f'{separator}"' in line or line.startswith('"') for line in lines)
    return believable and (quoted or looks_like_header([cell.strip() for cell in records[0]]))


def _csv_records(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    """Yield the records of CSV up to a line that is not CSV."""
    try:
        yield from csv.reader(lines, delimiter=separator, strict=True)
    except csv.Error:
        return
