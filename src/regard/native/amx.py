"""AMX, the matrix unit of recent Intel processors: test whether its instructions execute here."""

import os
from functools import cache
from pathlib import Path

from regard.native.library import library

_CPU_FLAGS = Path("/proc/cpuinfo")
_ISA = "ONEDNN_MAX_CPU_ISA"  # the instruction set that oneDNN may use, read at its first product


@cache
def amx_executes() -> bool:
    """Return True if AMX multiplies matrices; False without the compiled library."""
    loaded = library()
    return loaded is not None and bool(loaded.regard_amx_executes())


def amx_is_announced() -> bool:
    """Return True if the kernel lists AMX among the processor's features."""
    try:
        with _CPU_FLAGS.open("rb") as file:
            return b" amx_tile" in file.read(8192)  # the first core's flags
    except OSError:
        return False


def avoid_broken_amx() -> None:
    """Keep oneDNN from AMX where it is announced and does not execute.

    Some virtual machines announce AMX and raise SIGILL at its first instruction: every bfloat16
    product of torch would end the process.
    """
    if _ISA not in os.environ and amx_is_announced() and not amx_executes():
        os.environ[_ISA] = "AVX512_CORE_FP16"
