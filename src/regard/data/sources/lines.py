"""Lines of text from files and standard input: split at \\n only, decoded as UTF-8.

A file in another encoding is an error that names it, unless its encoding is given: then its bytes
are converted to UTF-8 as they are read.
"""

import codecs
import gzip
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from io import BufferedIOBase
from pathlib import Path
from typing import IO, NamedTuple, cast

from regard.data.records import Location, Rejected
from regard.data.sources.encodings import (
    UNKNOWN,
    Guess,
    conversion,
    guess_narrow,
    guess_wide,
    remedy,
)
from regard.errors import DataError
from regard.nearest import cannot_be_read

BLOCK = 2**20  # bytes read at once
MAX_LINE = 64 * 2**20  # bytes; a longer line would fill the memory
GZIP = b"\x1f\x8b"
STANDARD_INPUT = "standard input"  # its name in errors
UTF8_BOM = b"\xef\xbb\xbf"


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; `-` is standard input. Raises DataError if it is not UTF-8."""
    return list(stream_text(path))


def stream_lines(
    path: Path, encoding: str | None = None, *, keep_ends: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file, plain or gzip, as UTF-8, without reading it into memory.

    With `keep_ends` each line has its \\n, except a last line without one.
    """
    return _numbered(_file_blocks(path, encoding), str(path), keep_ends)


def stream_text(path: Path, encoding: str | None = None) -> Iterator[str]:
    """Yield the lines of a file, or of standard input (`-`), without reading it into memory."""
    file = None if str(path) == "-" else path
    where = STANDARD_INPUT if file is None else str(path)
    blocks = _input_blocks() if file is None else _file_blocks(path, encoding)
    for number, line in _numbered(blocks, where):
        yield decode_line(line, f"{where}, line {number}", file)


def decode(line: bytes, location: Location) -> str | Rejected:
    """Return the text of a line of a file, or which byte of it is invalid.

    Raises DataError if the file as a whole is in another encoding.
    """
    text = decode_value(line, location)
    if isinstance(text, Rejected) and (guess := _encoding_of(Path(location.file))):
        raise DataError(
            f"{location}: {text.detail}: the file is not UTF-8 and looks like {guess.name}; "
            f"{remedy(guess, location.file)}."
        )
    return text


def decode_value(value: bytes, location: Location) -> str | Rejected:
    """Return the text of bytes that are UTF-8, or which of them is invalid."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"byte {error.start + 1} is 0x{value[error.start]:02x}"
        return Rejected(location, "invalid UTF-8", detail)


def decode_line(line: bytes, where: str, path: Path | None = None) -> str:
    """Return the text of a line; raises DataError if it is not UTF-8.

    The error names the encoding of the file, or that of the line if it is of no file.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        guess = guess_narrow([line]) if path is None else _encoding_of(path)
        hint = ""
        if guess is not None and guess is not UNKNOWN:
            command = conversion(guess, None if path is None else str(path))
            hint = f"; it looks like {guess.name}: {command}"
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not valid UTF-8; "
            f"convert the text to UTF-8 first{hint}."
        ) from None


class _FileVersion(NamedTuple):
    """A file as long as it does not change."""

    path: Path
    size: int
    modified: int


def _encoding_of(path: Path) -> Guess | None:
    """Return the encoding of a file with invalid UTF-8, or None where lines of it are damaged."""
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    version = _FileVersion(path, stat.st_size, stat.st_mtime_ns)
    return _guess_once(version) if path.is_file() else None


@lru_cache(maxsize=64)
def _guess_once(file: _FileVersion) -> Guess | None:
    return guess_narrow(line for _, line in stream_lines(file.path))


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


def _file_blocks(path: Path, encoding: str | None = None) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if gzip, as UTF-8 without a byte order mark."""
    try:
        with path.open("rb") as file:
            is_gzip = file.peek(len(GZIP)).startswith(GZIP)
            content = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_gzip else file
            if encoding is None:
                yield from _blocks(content.read, str(path))
            else:
                yield from _converted(content.read, str(path), encoding)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: damaged or truncated, it cannot be decompressed ({error}); fetch it again."
        ) from None
    except OSError as error:
        raise DataError(cannot_be_read(path, error)) from None


def _input_blocks() -> Iterator[bytes]:
    """Yield the bytes of standard input as they arrive."""
    try:
        yield from _blocks(cast("BufferedIOBase", sys.stdin.buffer).read1, None)
    except OSError as error:
        raise DataError(f"{STANDARD_INPUT}: cannot be read ({error.strerror}).") from None


def _converted(read: Callable[[int], bytes], where: str, encoding: str) -> Iterator[bytes]:
    """Yield blocks of another encoding as UTF-8; refuse what is not of this encoding."""
    decoder, lines, mark = codecs.getincrementaldecoder(encoding)(), 1, "\ufeff"
    while True:
        block = read(BLOCK)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeError as error:
            if isinstance(error, UnicodeDecodeError):
                lines += error.object[: error.start].decode(encoding, "replace").count("\n")
            raise DataError(
                f"{where}, line {lines}: this is not {encoding}; correct the `encoding` of this "
                f"source, or leave it out for UTF-8."
            ) from None
        lines += text.count("\n")
        yield text.removeprefix(mark).encode("utf-8", "surrogatepass")
        mark = "" if text else mark
        if not block:
            return


def _blocks(read: Callable[[int], bytes], path: str | None) -> Iterator[bytes]:
    """Yield blocks without a UTF-8 byte order mark; refuse what is not text of UTF-8."""
    first, where = b"", path or STANDARD_INPUT
    while len(first) < len(UTF8_BOM) and (block := read(BLOCK)):
        first += block
    if guess := guess_wide(first):
        setting = f" (or set `encoding: {guess.setting}` for a source of data)" if path else ""
        raise DataError(
            f"{where}: this is {guess.name}; convert the text to UTF-8 first: "
            f"{conversion(guess, path)}{setting}."
        )
    if first.startswith(GZIP):
        raise DataError(f"{where}: this is compressed (gzip); decompress it first (gzip -dc).")
    yield first.removeprefix(UTF8_BOM)
    while block := read(BLOCK):
        yield block
