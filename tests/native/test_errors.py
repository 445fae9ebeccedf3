"""Exceptions of the compiled functions become exceptions of Python, in any thread."""

import subprocess
import sys

import pytest

from regard.native.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="nothing was compiled")

# Each thread of an 8-bit product has a buffer of 96 rows of inputs: 100 MB here, and the process
# may have 30 MB more. An address space is limited for good, so it is that of a child.
PROGRAM = """
import os, resource
import numpy as np
from regard.engine.packing import Matrix
from regard.errors import DataError

rng = np.random.default_rng(1)
small, large = (Matrix(rng.random((64, n), np.float32), None, 8) for n in (100, 1 << 20))
x = rng.random((3, 100), np.float32)
os.environ["REGARD_THREADS"] = "3"
expected = small(x)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (30 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for threads in (3, 1, 2):
    os.environ["REGARD_THREADS"] = str(threads)
    try:
        large(np.zeros((1, 1 << 20), np.float32))
    except DataError as error:
        print(error)
assert (small(x) == expected).all()  # the pool works as before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_too_little_memory_is_an_error() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    message = "there is not enough memory for this batch (std::bad_alloc); compute fewer rows"
    assert done.stdout.count(message) == 3
