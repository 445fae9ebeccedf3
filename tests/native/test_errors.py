"""Exceptions of the compiled functions become exceptions of Python, in any thread."""

import subprocess
import sys

import pytest

from regard.native.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="nothing was compiled")

# Each thread of an 8-bit product has a buffer of 96 rows of inputs: 100 MB here, and the process
# may have 30 MB more. An address space is limited for good, so it is that of a child.
PROGRAM = """
import resource, sys, torch
from regard.engine.packing import Matrix
from regard.errors import DataError

small, large = (Matrix(torch.randn(64, size), None, 8) for size in (100, 1 << 20))
x = torch.randn(3, 100)
torch.set_num_threads(int(sys.argv[1]))
expected = small(x)
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (30 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for _ in range(3):
    try:
        large(torch.zeros(1, 1 << 20))
    except DataError as error:
        print(error)
assert torch.equal(small(x), expected)  # the pool works as before
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.parametrize("threads", [1, 3])
def test_too_little_memory_is_an_error(threads: int) -> None:
    command = [sys.executable, "-c", PROGRAM, str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    message = "there is not enough memory for this batch (std::bad_alloc); compute fewer rows"
    assert done.stdout.count(message) == 3
