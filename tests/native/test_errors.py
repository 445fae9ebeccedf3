"""Exceptions of the compiled functions become exceptions of Python, in any thread."""

import subprocess
import sys

import pytest

from regard.native.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="nothing was compiled")

# Each thread of an 8-bit product has a buffer of 96 rows of inputs: 100 MB here, and the process
# may have 30 MB more. An address space is limited for good, so it is that of a child.
PROGRAM = """
import resource, torch
from regard.engine.packing import Matrix
from regard.errors import DataError

small, large = (Matrix(torch.randn(64, size), None, 8) for size in (100, 1 << 20))
x = torch.randn(3, 100)
torch.set_num_threads(3)
expected = small(x)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (30 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for threads in (3, 1, 2):
    torch.set_num_threads(threads)
    try:
        large(torch.zeros(1, 1 << 20))
    except DataError as error:
        print(error)
assert torch.equal(small(x), expected)  # the pool works as before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_too_little_memory_is_an_error() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    message = "there is not enough memory for this batch (std::bad_alloc); compute fewer rows"
    assert done.stdout.count(message) == 3
