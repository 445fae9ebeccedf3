"""Lines of text from files and standard input: they end at \\n only, and are valid UTF-8."""

import sys
from pathlib import Path

from regard.errors import DataError


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


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: byte {error.start + 1} (0x{line[error.start]:02x}) is not valid UTF-8; "
            f"convert the text to UTF-8 first."
        ) from None
