"""Standard streams: UTF-8 whatever the locale is, and open even where the caller closed them.

Characters that a stream cannot represent never end a command: bytes of file names that are not
UTF-8 are written as they were given, other characters as escapes.
"""

import codecs
import errno
import io
import os
import sys
from pathlib import Path
from typing import TextIO, cast

ESCAPE = "regard.escape"  # name of the error handler


class StreamError(Exception):
    """A standard stream that cannot be written; no OSError, for it is no failure of a file."""

    def __init__(self, name: str, cause: OSError) -> None:
        super().__init__(f"{name}: cannot be written ({cause.strerror}).")
        self.is_closed_pipe = cause.errno == errno.EPIPE  # as `head` leaves it after its lines


def prepare_streams() -> None:
    """Open closed streams and set the encoding of the others.

    Reading a standard input that was closed fails, as does writing to a standard output that was
    closed: results are never lost in silence.
    """
    codecs.register_error(ESCAPE, _escape)
    sys.stdin = sys.stdin or _failing("r")
    sys.stdout = _output("standard output", sys.stdout or _failing("w"))
    sys.stderr = _output("standard error", sys.stderr or _nowhere())


def echo(text: str, *, err: bool = False) -> None:
    """Print a line to standard output or standard error at once.

    Typer's function of this name removes terminal escapes of the text where it is no terminal.
    Where nobody reads standard error, its lines are dropped and the results still come.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except StreamError:
        if not err:
            raise
        _discard(stream)


def flush_streams() -> None:
    """Write what is left in the output streams; raises StreamError."""
    sys.stdout.flush()
    sys.stderr.flush()


def discard_output() -> None:
    """Drop what streams that fail could not write, so that the interpreter's exit is silent."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except StreamError:
            _discard(stream)


def _discard(stream: TextIO) -> None:
    with _nowhere() as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


class _Output(io.TextIOWrapper):
    """An output stream whose failures have its name."""

    title = ""  # in errors
    replaced: TextIO | None = None  # kept, for it would close the descriptor

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise StreamError(self.title, error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise StreamError(self.title, error) from None


def _output(name: str, stream: TextIO) -> TextIO:
    """Return an output stream that has UTF-8 and names its failures."""
    if type(stream) is not io.TextIOWrapper:  # a test captures it
        return stream
    output = _Output(
        stream.buffer,
        # A terminal shows its own encoding; pipes and files have the encoding of all files.
        encoding=stream.encoding if stream.isatty() else "utf-8",
        errors=ESCAPE,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    output.title, output.replaced = name, stream
    return output


def _failing(mode: str) -> TextIO:
    """Return a stream that was opened the other way, so that every use fails."""
    flags = os.O_WRONLY if mode == "r" else os.O_RDONLY
    return cast("TextIO", os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def _nowhere() -> io.TextIOWrapper:
    return Path(os.devnull).open("w", encoding="utf-8")


def _escape(error: UnicodeError) -> tuple[bytes, int]:
    """Encode the bytes of a file name as they are, and other characters as \\u escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return b"".join(map(_escape_one, characters)), error.end


def _escape_one(character: str) -> bytes:
    try:
        return character.encode("ascii", "surrogateescape")
    except UnicodeEncodeError:
        return character.encode("ascii", "backslashreplace")
