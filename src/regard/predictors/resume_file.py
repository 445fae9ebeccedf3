"""Output files that resume: constant memory, lines in order, no line computed twice.

Finished lines are in OUTPUT.part; OUTPUT.part.json identifies the request that they answer. After
an interruption the same command continues there; at the end OUTPUT.part becomes OUTPUT.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from regard.errors import OutputError

CHUNK = 1000  # lines at a time: enough to batch those of similar length

Answer = Callable[[list[str]], list[str]]  # as many lines out as in


def in_chunks(lines: Iterable[str], answer: Answer) -> Iterator[str]:
    """Yield the answers in the order of the lines, with at most CHUNK lines in memory."""
    remaining = iter(lines)
    while chunk := list(islice(remaining, CHUNK)):
        yield from answer(chunk)


@dataclass(frozen=True)
class ResumableOutput:
    """An output file that can be continued after an interruption.

    Raises:
        OutputError: Unfinished lines of another request are there.
    """

    output: Path
    request: Any  # everything the lines depend on, as plain data
    resumable: bool = True  # False where the request cannot be answered again from its middle

    def __post_init__(self) -> None:
        if self._part_size() and self._part_request() != self._fingerprint:
            raise OutputError(
                f"{self.path}: unfinished lines of another command are there; finish that command, "
                f"or remove {self.path} and {self._metadata.name}."
            )

    @property
    def path(self) -> Path:
        """The file with the finished lines."""
        return self.output.with_name(self.output.name + ".part")

    @property
    def _metadata(self) -> Path:
        return self.output.with_name(self.output.name + ".part.json")

    @property
    def _fingerprint(self) -> str:
        return hashlib.sha256(json.dumps(self.request, sort_keys=True).encode()).hexdigest()

    def _part_size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _part_request(self) -> str | None:
        """Return the fingerprint of the request that the finished lines answer."""
        try:
            content = json.loads(self._metadata.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        fingerprint = content.get("of") if isinstance(content, dict) else None
        return fingerprint if isinstance(fingerprint, str) else None

    def done(self) -> int:
        """Return the number of finished lines; drop a line that was not written to its end."""
        if not self.resumable or self._part_request() != self._fingerprint:
            return 0
        try:
            with self.path.open("r+b") as file:
                self._lock(file.fileno())
                size = count = 0
                for line in file:
                    if line.endswith(b"\n"):
                        size, count = size + len(line), count + 1
                file.truncate(size)
            return count
        except OSError:
            return 0

    def write(self, lines: Iterable[str], done: int) -> None:
        """Append the lines after the first `done` ones, and rename the file to the output.

        Raises:
            OutputError: The file cannot be written; what was written stays.
        """
        try:
            with self.path.open("ab") as file:
                self._lock(file.fileno())
                if not done:
                    metadata = json.dumps({"of": self._fingerprint}).encode()
                    self._metadata.write_bytes(metadata)
                    file.truncate(0)
                for number, line in enumerate(lines, start=1):
                    file.write(line.encode() + b"\n")
                    if number % CHUNK == 0:
                        file.flush()
                file.flush()
                os.fsync(file.fileno())
                self.path.replace(self.output)
                self._metadata.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.output}: cannot be written ({error.strerror}); finished lines are in "
                f"{self.path}, and the same command continues from there."
            ) from None

    def _lock(self, descriptor: int) -> None:
        """Lock the finished lines until they are closed; refuse if another process writes them."""
        if os.name == "nt":  # has no such locks
            return
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"{self.path}: another command is writing it; choose another output."
            ) from None
