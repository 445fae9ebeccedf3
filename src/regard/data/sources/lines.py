"""Lines of text from files and standard input: split at \\n only, decoded as UTF-8."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from regard.data.records import Location, Rejected
from regard.errors import DataError

BLOCK = 2**20  # bytes read at once
MAX_LINE = 64 * 2**20  # bytes; a longer line would fill the memory
GZIP = b"\x1f\x8b"
UTF8_BOM, UTF16_BOMS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; `-` is standard input. Raises DataError if it is not UTF-8."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    return decode_lines(data, "standard input" if str(path) == "-" else str(path))


def decode_lines(data: bytes, where: str) -> list[str]:
    """Split at \\n only, so that U+2028 and the like cannot misalign parallel files."""
    lines = data.removesuffix(b"\n").split(b"\n") if data else []
    return [
        _decode(line.removesuffix(b"\r"), f"{where}, line {number}")
        for number, line in enumerate(lines, start=1)
    ]


def stream_lines(path: Path, *, keep_ends: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file, plain or gzip, without reading it into memory.

    With `keep_ends` each line has its \\n, except a last line without one.
    """
    number, rest, end = 1, b"", b"\n" if keep_ends else b""
    for block in _blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield number, line.removesuffix(b"\r") + end
            number += 1
        if len(rest) > MAX_LINE:
            raise DataError(
                f"{path}, line {number}: more than {MAX_LINE // 2**20} MB without a newline; "
                f"break the lines of the text first."
            )
    if rest:
        yield number, rest.removesuffix(b"\r")


def stream_text(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or of standard input (`-`), without reading it into memory."""
    if str(path) == "-":
        for number, line in enumerate(sys.stdin.buffer, start=1):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            yield _decode(text, f"standard input, line {number}")
    else:
        for number, line in stream_lines(path):
            yield _decode(line, f"{path}, line {number}")


def decode(line: bytes, location: Location) -> str | Rejected:
    """Return the text of a line, or which byte of it is invalid."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is 0x{line[error.start]:02x}"
        return Rejected(location, "invalid UTF-8", detail)


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not valid UTF-8; "
            f"convert the text to UTF-8 first."
        ) from None


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if gzip, without a UTF-8 byte order mark."""
    try:
        with path.open("rb") as file:
            is_gzip = file.peek(len(GZIP)).startswith(GZIP)
            content = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_gzip else file
            first = content.read(BLOCK)
            if first.startswith(UTF16_BOMS):
                raise DataError(f"{path}: this is UTF-16; convert the text to UTF-8 first.")
            yield first.removeprefix(UTF8_BOM)
            while block := content.read(BLOCK):
                yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: damaged or truncated, it cannot be decompressed ({error}); fetch it again."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
