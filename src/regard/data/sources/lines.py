"""Lines of text from files and standard input: split at \\n only, decoded as UTF-8."""

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast

from regard.data.records import Location, Rejected
from regard.errors import DataError
from regard.nearest import cannot_be_read

BLOCK = 2**20  # bytes read at once
MAX_LINE = 64 * 2**20  # bytes; a longer line would fill the memory
GZIP = b"\x1f\x8b"
STANDARD_INPUT = "standard input"  # its name in errors
UTF8_BOM, UTF16_BOMS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; `-` is standard input. Raises DataError if it is not UTF-8."""
    return list(stream_text(path))


def stream_lines(path: Path, *, keep_ends: bool = False) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file, plain or gzip, without reading it into memory.

    With `keep_ends` each line has its \\n, except a last line without one.
    """
    return _numbered(_file_blocks(path), str(path), keep_ends)


def stream_text(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or of standard input (`-`), without reading it into memory."""
    where, blocks = str(path), _file_blocks(path)
    if where == "-":
        where, blocks = STANDARD_INPUT, _input_blocks()
    for number, line in _numbered(blocks, where):
        yield decode_line(line, f"{where}, line {number}")


def decode(line: bytes, location: Location) -> str | Rejected:
    """Return the text of a line, or which byte of it is invalid."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is 0x{line[error.start]:02x}"
        return Rejected(location, "invalid UTF-8", detail)


def decode_line(line: bytes, where: str) -> str:
    """Return the text of a line; raises DataError if it is not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not valid UTF-8; "
            f"convert the text to UTF-8 first."
        ) from None


def _numbered(
    blocks: Iterator[bytes], where: str, keep_ends: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Split blocks at \\n; a line may span any number of blocks, up to MAX_LINE bytes."""
    number, end = 1, b"\n" if keep_ends else b""
    unfinished: list[bytes] = []  # parts of a line without its end
    length = 0
    for block in blocks:
        first, *others = block.split(b"\n")
        unfinished.append(first)
        length += len(first)
        if others:
            *lines, rest = others
            for line in (b"".join(unfinished), *lines):
                yield number, line.removesuffix(b"\r") + end
                number += 1
            unfinished, length = [rest], len(rest)
        if length > MAX_LINE:
            raise DataError(
                f"{where}, line {number}: more than {MAX_LINE // 2**20} MB without a newline; "
                f"break the lines of the text first."
            )
    if length:
        yield number, b"".join(unfinished).removesuffix(b"\r")


def _file_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if gzip, without a UTF-8 byte order mark."""
    try:
        with path.open("rb") as file:
            is_gzip = file.peek(len(GZIP)).startswith(GZIP)
            content = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_gzip else file
            yield from _blocks(content.read, str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: damaged or truncated, it cannot be decompressed ({error}); fetch it again."
        ) from None
    except OSError as error:
        raise DataError(cannot_be_read(path, error)) from None


def _input_blocks() -> Iterator[bytes]:
    """Yield the bytes of standard input as they arrive."""
    try:
        yield from _blocks(cast("BufferedIOBase", sys.stdin.buffer).read1, STANDARD_INPUT)
    except OSError as error:
        raise DataError(f"{STANDARD_INPUT}: cannot be read ({error.strerror}).") from None


def _blocks(read: Callable[[int], bytes], where: str) -> Iterator[bytes]:
    """Yield blocks without a UTF-8 byte order mark; refuse what is not text of UTF-8."""
    first = b""
    while len(first) < len(UTF8_BOM) and (block := read(BLOCK)):
        first += block
    if first.startswith(UTF16_BOMS):
        raise DataError(f"{where}: this is UTF-16; convert the text to UTF-8 first.")
    if first.startswith(GZIP):
        raise DataError(f"{where}: this is compressed (gzip); decompress it first (gzip -dc).")
    yield first.removeprefix(UTF8_BOM)
    while block := read(BLOCK):
        yield block
