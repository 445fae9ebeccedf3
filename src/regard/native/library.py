"""The compiled library, if it is there: it is built when Regard is installed.

It has kernels for several instruction sets and uses the best that this processor executes;
REGARD_ISA=NAME chooses another. Without a compiler everything works without it, more slowly. The
callers declare the argument types of the functions.
"""

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, RunError

POINTER = ctypes.c_void_p

ISA = "REGARD_ISA"  # environment variable: the instruction set to use

INTERFACE = 7  # version of the structs and functions, as regard_interface() of engine.cpp

_OUT_OF_MEMORY, _NOT_FINITE = 1, 2  # values of Status in native/status.h


@cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None if it was not built or is of another version.

    Raises ConfigError if REGARD_ISA is not an instruction set that this processor executes.
    """
    loaded = _load()
    if loaded is not None and (isa := os.environ.get(ISA)):
        use_isa(loaded, isa)
    return loaded


def supported_isas(loaded: ctypes.CDLL) -> list[str]:
    """List the instruction sets that this processor executes, the best first."""
    return str(loaded.regard_isas().decode()).split()


def current_isa(loaded: ctypes.CDLL) -> str:
    """Return the instruction set in use."""
    return str(loaded.regard_isa().decode())


def use_isa(loaded: ctypes.CDLL, name: str) -> None:
    """Use the kernels of another instruction set from now on."""
    if name not in (names := supported_isas(loaded)):
        raise ConfigError(f"{ISA} is {name!r}; this processor executes {', '.join(names)}.")
    loaded.regard_set_isa(name.encode())


def _load(folder: Path = Path(__file__).parent) -> ctypes.CDLL | None:
    try:
        loaded = ctypes.CDLL(str(folder / "_native.so"))
        if loaded.regard_interface() != INTERFACE:
            return None
    except (OSError, AttributeError):  # not built, or an old one
        return None
    for function in (loaded.regard_error_message, loaded.regard_isa, loaded.regard_isas):
        function.restype = ctypes.c_char_p
    return loaded


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
        raise not_finite("logits")
    raise RuntimeError(f"{function.__name__}: {detail}")


def not_finite(results: str) -> RunError:
    """Return the error of results that are NaN or infinite."""
    return RunError(
        f"the model computes {results} that are not finite (NaN or infinity): its weights are "
        f"damaged or too large; use another checkpoint."
    )
