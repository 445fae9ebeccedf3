"""Memory of this process."""

import sys
from pathlib import Path


def process_memory() -> int:
    """Return the bytes of memory of this process; of pages that others share, its part.

    Linux knows that part (PSS); elsewhere it is the largest amount that the process has had.
    """
    try:
        lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return _peak()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _peak() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
