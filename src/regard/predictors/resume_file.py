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
    """An output file that can be continued after an interruption."""

    output: Path
    request: Any  # everything the lines depend on, as plain data

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

    def done(self) -> int:
        """Return the number of finished lines; drop a line that was not written to its end."""
        try:
            if json.loads(self._metadata.read_text(encoding="utf-8"))["of"] != self._fingerprint:
                return 0
            with self.path.open("r+b") as file:
                size = count = 0
                for line in file:
                    if line.endswith(b"\n"):
                        size, count = size + len(line), count + 1
                file.truncate(size)
            return count
        except (OSError, ValueError, KeyError):
            return 0

    def write(self, lines: Iterable[str], done: int) -> None:
        """Append the lines after the first `done` ones, and rename the file to the output.

        Raises:
            OutputError: The file cannot be written; what was written stays.
        """
        try:
            if not done:
                self.path.write_bytes(b"")
                self._metadata.write_text(json.dumps({"of": self._fingerprint}), encoding="utf-8")
            with self.path.open("ab") as file:
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
