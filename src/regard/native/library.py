"""The compiled library, if there is one: it is built when Regard is installed.

Without a compiler, or on another processor than the one it was built for, everything works without
it, more slowly. The callers declare the argument types of its functions.
"""

import ctypes
from functools import cache
from pathlib import Path

POINTER = ctypes.c_void_p


@cache
def library() -> ctypes.CDLL | None:
    """Return the library, or None if it was not built or cannot run here."""
    for path in sorted(Path(__file__).parent.glob("_native*.so")):
        try:
            compiled = ctypes.CDLL(str(path))
        except OSError:
            continue
        if compiled.regard_supported():
            return compiled
    return None
