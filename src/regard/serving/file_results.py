"""Translated files that wait for their download: in memory, a few of them, and not for long.

A name is 192 random bits, so that nobody finds the file of somebody else.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from regard.serving.errors import NotFound, TooLarge

MAX_FILES = 100
MAX_BYTES = 64 * 2**20
MAX_SECONDS = 30 * 60.0


@dataclass(frozen=True)
class FileResult:
    """A translated file: its name for people, its content, and the time when it was made."""

    file_name: str
    content: bytes
    time: float


class FileResults:
    """Files by names that cannot be guessed; the oldest make room for new ones.

    Args:
        max_files: Number of files.
        max_bytes: Bytes of all files.
        max_seconds: Age of a file.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        max_seconds: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_files, self._max_bytes = max_files, max_bytes
        self._max_seconds, self._clock = max_seconds, clock
        self._results: OrderedDict[str, FileResult] = OrderedDict()

    def add(self, file_name: str, content: bytes) -> str:
        """Add a file and return the name that it can be downloaded by.

        Raises:
            TooLarge: The file alone is larger than all may be.
        """
        if len(content) > self._max_bytes:
            raise TooLarge(f"the file is larger than {self._max_bytes:,} bytes now; split it.")
        name = secrets.token_urlsafe(24)
        self._results[name] = FileResult(file_name, content, self._clock())
        self._remove_oldest()
        return name

    def get(self, name: str) -> FileResult:
        """Return a file.

        Raises:
            NotFound: There is no file of this name, or no longer.
        """
        self._remove_oldest()
        if name not in self._results:
            raise NotFound("there is no such file, or no longer; translate it again.")
        return self._results[name]

    def _remove_oldest(self) -> None:
        size = sum(len(result.content) for result in self._results.values())
        for name, result in list(self._results.items()):
            is_old = self._clock() - result.time > self._max_seconds
            if not (is_old or len(self._results) > self._max_files or size > self._max_bytes):
                break
            del self._results[name]
            size -= len(result.content)
