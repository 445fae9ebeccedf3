"""Running text to be continued: books, articles, one's own notes.

What ends a document (the newline, the blank lines, the end of the file) is no part of it, and all
else comes back as it stood, but that a line ends with \\n where it ended with \\r\\n.
"""

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from regard.data.characters import ODD
from regard.data.lines import decode, stream_lines
from regard.data.records import Line, Place, Record, Rejected
from regard.data.sources import Shape, SourceSpec
from regard.data.sources.paths import files_at
from regard.errors import DataError

CHUNK = 2**16  # characters of a record at most, unless one line alone has more

Documents = Literal["file", "line", "blank"]


class Spec(SourceSpec):
    """{kind: text, path: [novel.txt, letters/], documents: file}"""

    shape: ClassVar[Shape] = "text"

    path: Path | tuple[Path, ...] = Field(
        ..., description="files, folders (all below them) or patterns with *; gzip or plain"
    )
    documents: Documents = Field(
        "file", description="where a document ends: with its file, its line, or at blank lines"
    )

    def records(self) -> Iterator[Line]:
        for file in self.files():
            yield from _records(_lines(file, self.documents))

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


def _lines(path: Path, documents: Documents) -> Iterator[tuple[Place, str] | Rejected | None]:
    """The lines of a file and where they stand, with None wherever a document ends."""
    for number, line in stream_lines(path, keep_ends=True):
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
