"""Lines of text from files and standard input: they end at \\n only, and are valid UTF-8."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from regard.data.records import Place, Rejected
from regard.errors import DataError

BLOCK = 2**20  # bytes read at once
LONGEST = 64 * 2**20  # bytes of a line: more is no line, and would fill the memory
GZIP = b"\x1f\x8b"
UTF8_MARK, UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: Path) -> list[str]:
    """The lines of a file; `-` is standard input."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    return decode_lines(data, "standard input" if str(path) == "-" else str(path))


def decode_lines(data: bytes, where: str) -> list[str]:
    """Split at \\n alone, so that U+2028 and its like cannot put two files out of step."""
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return [
        _decode(line.removesuffix(b"\r"), f"{where}, line {number}")
        for number, line in enumerate(lines, start=1)
    ]


def stream_lines(path: Path, *, keep_ends: bool = False) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, plain or gzip, with their numbers; the file is never in memory whole.

    With `keep_ends` each line has its \\n, and only a last one that has none goes without.
    """
    number, rest, end = 1, b"", b"\n" if keep_ends else b""
    for block in _blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield number, line.removesuffix(b"\r") + end
            number += 1
        if len(rest) > LONGEST:
            raise DataError(
                f"{path}, line {number}: more than {LONGEST // 2**20} MB without a newline; is "
                f"this text? If so, break its lines first."
            )
    if rest:
        yield number, rest.removesuffix(b"\r")


def stream_text(path: Path) -> Iterator[str]:
    """The lines of a file, or of standard input (`-`), few of which are in memory at a time."""
    if str(path) == "-":
        for number, line in enumerate(sys.stdin.buffer, start=1):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            yield _decode(text, f"standard input, line {number}")
    else:
        for number, line in stream_lines(path):
            yield _decode(line, f"{path}, line {number}")


def decode(line: bytes, place: Place) -> str | Rejected:
    """The text of a line, or which byte of it is wrong."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte {error.start + 1} is 0x{line[error.start]:02x}"
        return Rejected(place, "invalid UTF-8", found)


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not valid UTF-8; "
            f"convert the text to UTF-8 first."
        ) from None


def _blocks(path: Path) -> Iterator[bytes]:
    """A file's bytes, unpacked if they are gzip's and without the mark of UTF-8."""
    try:
        with path.open("rb") as file:
            packed = file.peek(len(GZIP)).startswith(GZIP)
            content = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
            first = content.read(BLOCK)
            if first.startswith(UTF16_MARKS):
                raise DataError(f"{path}: this is UTF-16; convert the text to UTF-8 first.")
            yield first.removeprefix(UTF8_MARK)
            while block := content.read(BLOCK):
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: damaged or cut off, it cannot be unpacked ({error}); fetch it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
