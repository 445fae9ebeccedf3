"""The compiled library, if there is one: it is built when Regard is installed.

Where there was no compiler, or the processor is another than the one it was built for, everything
works without it, more slowly. Whoever calls its functions says what they take.
"""

import ctypes
from functools import cache
from pathlib import Path

POINTER = ctypes.c_void_p


@cache
def library() -> ctypes.CDLL | None:
    """Its functions; None where it was not built or cannot run here."""
    for path in sorted(Path(__file__).parent.glob("_native*.so")):
        try:
            found = ctypes.CDLL(str(path))
        except OSError:
            continue
        if found.regard_supported():
            return found
    return None
