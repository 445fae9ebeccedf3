"""Running text to be continued: books, articles, one's own notes.

What ends a document (the newline, the blank lines, the end of the file) is no part of it, and all
else comes back as it stood, but that a line ends with \\n where it ended with \\r\\n.

A `part` of the text is cut at characters, int(share · all of them), wherever that falls: the first
nine tenths and the last one are [0, 0.9] and [0.9, 1], and no character is in both or in neither.
"""

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources.base import RecordType, SourceSpec
from regard.data.sources.characters import ODD
from regard.data.sources.lines import decode, stream_lines
from regard.data.sources.paths import files_at
from regard.errors import DataError

CHUNK = 2**16  # characters of a record at most, unless one line alone has more

Documents = Literal["file", "line", "blank"]


class Spec(SourceSpec):
    """{kind: text, path: [novel.txt, letters/], documents: file}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {"part": "fraction"}

    record_type: ClassVar[RecordType] = "text"

    path: Path | tuple[Path, ...] = Field(
        ..., description="files, folders (all below them) or patterns with *; gzip or plain"
    )
    documents: Documents = Field(
        "file", description="where a document ends: with its file, its line, or at blank lines"
    )
    fraction: tuple[float, float] | None = Field(
        None, description="from which share of the characters of all files to which: [0, 0.9]"
    )

    @field_validator("fraction")
    @classmethod
    def _some_of_it(cls, given: tuple[float, float] | None) -> tuple[float, float] | None:
        if given is not None and not 0 <= given[0] < given[1] <= 1:
            raise ValueError(
                f"a part goes from one share of the text to a larger, as [0, 0.9] and [0.9, 1] do, "
                f"not {list(given)}"
            )
        return given

    def records(self) -> Iterator[Line]:
        files = self.files()
        cut = None if self.fraction is None else _Cut.of(files, self.fraction)
        for file in files:
            lines = stream_lines(file, keep_ends=True)
            yield from _records(_lines(file, lines if cut is None else cut(lines), self.documents))

    def files(self) -> list[Path]:
        paths = self.path if isinstance(self.path, tuple) else (self.path,)
        return [file for path in paths for file in _files(path)]


def _files(path: Path) -> list[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return files_at(path, "*")
    found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    if not found:
        raise DataError(f"{path}: nothing has a name like this.")
    return [file for each in found for file in files_at(each, "*")]


class _Cut:
    """The characters from one place to another, of files that are gone through one by one."""

    def __init__(self, first: int, end: int) -> None:
        self._first, self._end, self._at = first, end, 0

    @classmethod
    def of(cls, files: Sequence[Path], part: tuple[float, float]) -> "_Cut":
        lines = (line for file in files for _, line in stream_lines(file, keep_ends=True))
        total = sum(len(_characters(line)) for line in lines)
        return cls(*(int(total * share) for share in part))

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


# What is not UTF-8 counts a character a byte, and is found wrong as it would have been.
def _characters(line: bytes) -> str:
    return line.decode("utf-8", errors="surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _lines(
    path: Path, lines: Iterable[tuple[int, bytes]], documents: Documents
) -> Iterator[tuple[Place, str] | Rejected | None]:
    """The lines of a file and where they stand, with None wherever a document ends."""
    for number, line in lines:
        place = Place(str(path), number)
        text = decode(line, place)
        if isinstance(text, Rejected):
            yield text
        elif documents == "file":
            yield place, text
        elif text.isspace():
            yield None
        elif documents == "blank":
            yield place, text
        else:
            yield place, text.removesuffix("\n")
            yield None
    yield None


def _records(lines: Iterable[tuple[Place, str] | Rejected | None]) -> Iterator[Line]:
    """Lines put together to records of a handy size, each within one document.

    A line with an odd character has a record to itself, for the checks drop records whole.
    """
    texts: list[str] = []
    place, size, odd = Place("", 0), 0, False
    for line in lines:
        if isinstance(line, Rejected):
            yield line
        elif line is None:
            if texts:
                yield Record(place, ("".join(texts),))
            texts = []
        else:
            here, text = line
            was_odd, odd = odd, ODD.search(text) is not None
            if texts and (odd or was_odd or size + len(text) > CHUNK):
                yield Record(place, ("".join(texts),), ends=False)
                texts = []
            if not texts:
                place, size = here, 0
            texts.append(text)
            size += len(text)
