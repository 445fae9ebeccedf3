"""Crash a process at the n-th operation on the file system, as `kill -9` or a power cut would."""

import os
import sys
from collections.abc import Callable
from typing import Any

OPERATIONS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link")
CRASHED = 99
WRITES = os.O_WRONLY | os.O_RDWR


def crashes(number: int, action: Callable[[], Any]) -> bool:
    """Run the action in a child that ends before its operation `number`; True if it came so far.

    Operations are those that change files: open for writing, flush, rename, remove, make a folder.
    A file that was to be flushed loses its second half.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _count(number)
            action()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, CRASHED)
    return code == CRASHED


def _count(number: int) -> None:
    left = number

    def operation(file: int | None = None) -> None:
        nonlocal left
        if left == 0:
            if file is not None and (size := os.fstat(file).st_size) and _is_file(file):
                os.ftruncate(file, size // 2)
            os._exit(CRASHED)
        left -= 1

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPERATIONS or (event == "open" and (arguments[2] or 0) & WRITES):
            operation()

    os.fsync = operation  # type: ignore[assignment]
    sys.addaudithook(hook)


def _is_file(file: int) -> bool:
    return os.path.isfile(f"/dev/fd/{file}")  # noqa: PTH113
