"""Failures of a command: what is printed, and the exit code.

    0     success               130   interrupted (Ctrl-C)
    1     an error to fix       141   the reader of a pipe has ended, as `head` does
    2     wrong usage            70   a bug in Regard

Errors that a user can fix are one sentence; a bug keeps its traceback, for without it nobody could
find its cause after hours of training.
"""

import contextlib
import sys
import traceback
from pathlib import Path

from regard.cli._shared.streams import StreamError, discard_output, flush_streams
from regard.errors import Interrupted, RegardError
from regard.missing_modules import missing_module
from regard.nearest import nearest_path

MAX_SENTENCE = 1000  # characters
FAILED, BUG, INTERRUPTED, CLOSED_PIPE = 1, 70, 130, 141


def report_failure(error: BaseException) -> int:
    """Print one sentence for an error, if it needs one, and return the exit code."""
    if isinstance(error, StreamError):
        discard_output()
        return CLOSED_PIPE if error.is_closed_pipe else _report(str(error), FAILED)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, Interrupted):
        return _report(str(error), INTERRUPTED)
    sentence = _sentence(error)
    if sentence is not None:
        return _report(sentence, FAILED)
    with contextlib.suppress(StreamError):
        traceback.print_exception(error)
    return _report(
        f"{type(error).__name__}: this is a bug in Regard; please report it with the lines above.",
        BUG,
    )


def flush_output(code: int) -> int:
    """Write what is left of the output; return the exit code, another one where that fails."""
    try:
        flush_streams()
    except StreamError as error:
        return report_failure(error)
    return code


def _report(sentence: str, code: int) -> int:
    try:
        print(f"regard: {_shortened(_on_one_line(sentence))}", file=sys.stderr, flush=True)
    except StreamError:
        discard_output()
    return code


def _on_one_line(sentence: str) -> str:
    """Show control characters of a name or value as escapes; a terminal would obey them."""
    return "".join(c if c.isprintable() or _is_undecoded(c) else ascii(c)[1:-1] for c in sentence)


def _is_undecoded(character: str) -> bool:
    """Return True for a byte of a file name that is not UTF-8, which is printed as it is."""
    return "\udc80" <= character <= "\udcff"


def _shortened(sentence: str) -> str:
    """Leave out the middle of a long sentence: it quotes a value that is longer than a name."""
    if len(sentence) <= MAX_SENTENCE:
        return sentence
    half = MAX_SENTENCE // 2
    return f"{sentence[:half]} … {sentence[-half:]}"


def _sentence(error: BaseException) -> str | None:
    """Return the sentence of an error that is no bug; None for a bug."""
    if isinstance(error, ModuleNotFoundError) and not _is_out_of_memory(error):
        return _missing(error)
    if isinstance(error, RegardError):
        return str(error)
    if _is_out_of_memory(error):
        return (
            "out of memory: give less at once (a smaller model, batch or beam, shorter texts), or "
            "use a machine with more memory."
        )
    if isinstance(error, RecursionError):
        return "the input is nested too deeply to be read; it is damaged, or no file of Regard."
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        code = ord(error.object[error.start])
        return (
            f"a text has U+{code:04X}, half of a surrogate pair, which is no character: remove it."
        )
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        missing = isinstance(error, FileNotFoundError) and isinstance(error.filename, str)
        hint = nearest_path(Path(error.filename)) if missing else ""
        return f"{where}{error.strerror}{hint or '.'}"
    return None


def _missing(error: ModuleNotFoundError) -> str | None:
    """Return the sentence for a module that this command needs and that is not installed."""
    missing = missing_module(error, " ".join(["regard", *sys.argv[1:2]]))
    return None if missing is None else str(missing)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, RuntimeError):  # of torch, on a CPU or a GPU, and of new threads
        parts = ("can't allocate memory", "can't start new thread")
        return type(error).__name__ == "OutOfMemoryError" or any(p in str(error) for p in parts)
    if isinstance(error, ImportError):  # of a library that does not fit
        parts = ("failed to map segment", "cannot allocate memory")
        cause = error.__cause__ or error.__context__
        return any(p in str(error).lower() for p in parts) or (
            cause is not None and _is_out_of_memory(cause)
        )
    return isinstance(error, MemoryError)
