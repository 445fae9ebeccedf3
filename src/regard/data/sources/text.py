"""Running text for language models: books, articles, notes.

The end of a document (newline, blank lines, end of file) is not part of it. All else is unchanged,
except that \\r\\n becomes \\n.

A `fraction` of the text is cut at the character int(fraction · number of characters): the first
nine tenths and the last one are [0, 0.9] and [0.9, 1], and each character is in exactly one.
"""

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from regard.data.records import Line, Location, Record, Rejected
from regard.data.sources.base import RecordType, TextFileSpec
from regard.data.sources.characters import ODD
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.paths import files_at
from regard.errors import DataError

CHUNK = 2**16  # maximum characters of a record, unless one line has more

Documents = Literal["file", "line", "blank"]


class Spec(TextFileSpec):
    """{kind: text, path: [novel.txt, letters/], documents: file}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"part": "fraction"}

    record_type: ClassVar[RecordType] = "text"

    path: Path | tuple[Path, ...] = Field(
        ..., description="files, folders (all below them) or patterns with *; gzip or plain"
    )
    documents: Documents = Field(
        "file", description="what ends a document: the end of its file, of its line, or blank lines"
    )
    fraction: tuple[float, float] | None = Field(
        None, description="range of the characters of all files to read, as in [0, 0.9]"
    )

    @field_validator("fraction")
    @classmethod
    def _check_fraction(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not 0 <= value[0] < value[1] <= 1:
            raise ValueError(
                f"a fraction is a range within 0 and 1, as [0, 0.9] or [0.9, 1], not {list(value)}"
            )
        return value

    def records(self) -> Iterator[Line]:
        files = self.files()
        cut = None if self.fraction is None else self._range(files, self.fraction)
        for file in files:
            lines = stream_lines(file, self.encoding, keep_ends=True)
            yield from _records(_lines(file, lines if cut is None else cut(lines), self.documents))

    def _range(self, files: Sequence[Path], fraction: tuple[float, float]) -> "_CharacterRange":
        streams = (stream_lines(file, self.encoding, keep_ends=True) for file in files)
        total = sum(len(_characters(line)) for lines in streams for _, line in lines)
        return _CharacterRange(*(int(total * edge) for edge in fraction))

    def files(self) -> list[Path]:
        paths = self.path if isinstance(self.path, tuple) else (self.path,)
        return [file for path in paths for file in _files(path)]


def _files(path: Path) -> list[Path]:
    if not glob.has_magic(str(path)) or _exists(path):
        return files_at(path, "*")
    try:
        matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a pattern ({error}).") from None
    if not matches:
        raise DataError(f"{path}: no file or folder matches this pattern.")
    return [file for match in matches for file in files_at(match, "*")]


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


class _CharacterRange:
    """A range of characters of all files, which are read one by one."""

    def __init__(self, first: int, end: int) -> None:
        self._first, self._end, self._at = first, end, 0

    def __call__(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for number, line in lines:
            if self._at >= self._end:
                return
            text = _characters(line)
            begin, end = self._first - self._at, self._end - self._at
            self._at += len(text)
            if begin >= len(text):
                continue
            whole = begin <= 0 and end >= len(text)
            yield number, line if whole else _bytes(text[max(begin, 0) : end])


# A byte that is not UTF-8 counts as one character, and is rejected later as without a fraction.
def _characters(line: bytes) -> str:
    return line.decode("utf-8", errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _lines(
    path: Path, lines: Iterable[tuple[int, bytes]], documents: Documents
) -> Iterator[tuple[Location, str] | Rejected | None]:
    """Yield the lines of a file with their location, and None wherever a document ends."""
    for number, line in lines:
        location = Location(str(path), number)
        text = decode(line, location)
        if isinstance(text, Rejected):
            yield text
        elif documents == "file":
            yield location, text
        elif text.isspace():
            yield None
        elif documents == "blank":
            yield location, text
        else:
            yield location, text.removesuffix("\n")
            yield None
    yield None


def _records(lines: Iterable[tuple[Location, str] | Rejected | None]) -> Iterator[Line]:
    """Yield records of at most CHUNK characters, each within one document.

    A line with an odd character is a record of its own, because filters drop whole records.
    """
    texts: list[str] = []
    location, size, odd = Location("", 0), 0, False
    for line in lines:
        if isinstance(line, Rejected):
            yield line
        elif line is None:
            if texts:
                yield Record(location, ("".join(texts),))
            texts = []
        else:
            line_location, text = line
            was_odd, odd = odd, ODD.search(text) is not None
            if texts and (odd or was_odd or size + len(text) > CHUNK):
                yield Record(location, ("".join(texts),), ends_document=False)
                texts = []
            if not texts:
                location, size = line_location, 0
            texts.append(text)
            size += len(text)
