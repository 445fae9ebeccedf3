"""The compiled libraries, if they are there: they are built when Regard is installed.

`_native` is compiled for AVX2 where the machine is an x86; `_processor`, compiled for every
processor, tests first whether `_native` can run here. Without a compiler, or on an older processor,
everything works without them, more slowly. The callers declare the argument types of the functions.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import DataError, RunError

POINTER = ctypes.c_void_p

INTERFACE = 2  # version of the structs and functions, as regard_interface() of engine.cpp

_OUT_OF_MEMORY, _NOT_FINITE = 1, 2  # values of Status in native/status.h


@cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None if it was not built, is of another version or cannot run here."""
    tests = processor()
    if tests is None or not tests.regard_processor_is_supported():
        return None
    compiled = _load("_native")
    if compiled is None or not hasattr(compiled, "regard_interface"):
        return None
    if compiled.regard_interface() != INTERFACE:
        return None
    compiled.regard_error_message.restype = ctypes.c_char_p
    return compiled


@cache
def processor() -> ctypes.CDLL | None:
    """Return the library of tests of the processor, or None if it was not built."""
    return _load("_processor")


def _load(name: str) -> ctypes.CDLL | None:
    for path in sorted(Path(__file__).parent.glob(f"{name}*.so")):
        try:
            return ctypes.CDLL(str(path))
        except OSError:
            continue
    return None


def declare(function: Any, argument_types: Sequence[Any]) -> None:
    """Declare a function that returns a status: calls that fail raise an exception."""
    function.argtypes, function.restype = list(argument_types), ctypes.c_int
    function.errcheck = _raise_error


def _raise_error(status: int, function: Any, _: tuple[Any, ...]) -> None:
    if status == 0:
        return
    compiled = library()
    assert compiled is not None
    detail = compiled.regard_error_message().decode(errors="replace")
    if status == _OUT_OF_MEMORY:
        raise DataError(
            f"there is not enough memory for this batch ({detail}); compute fewer rows at a time."
        )
    if status == _NOT_FINITE:
        raise RunError(
            "the model computes logits that are not finite (NaN or infinity): its weights are "
            "damaged or too large; use another checkpoint."
        )
    raise RuntimeError(f"{function.__name__}: {detail}")
