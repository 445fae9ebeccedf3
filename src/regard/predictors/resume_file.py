"""A file translated part by part: constant memory, the order of lines kept, and never twice.

What is done stands in OUTPUT.part; beside it OUTPUT.part.json says of what. Stopped half-way, the
same command goes on where it was; at the end the part becomes the output.
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

CHUNK = 1000  # lines at a time: enough to put those of like length together

Answer = Callable[[list[str]], list[str]]  # as many texts as lines


def in_chunks(lines: Iterable[str], answer: Answer) -> Iterator[str]:
    """The answers, in the order of the lines, of which few are in memory at a time."""
    waiting = iter(lines)
    while chunk := list(islice(waiting, CHUNK)):
        yield from answer(chunk)


@dataclass(frozen=True)
class ResumableOutput:
    """The part of an output that is done, for a certain question."""

    output: Path
    question: Any  # what the answers depend on, as plain data

    @property
    def path(self) -> Path:
        return self.output.with_name(self.output.name + ".part")

    @property
    def _note(self) -> Path:
        return self.output.with_name(self.output.name + ".part.json")

    @property
    def _mark(self) -> str:
        return hashlib.sha256(json.dumps(self.question, sort_keys=True).encode()).hexdigest()

    def done(self) -> int:
        """How many lines are; a line that was cut off while it was written does not count."""
        try:
            if json.loads(self._note.read_text(encoding="utf-8"))["of"] != self._mark:
                return 0
            with self.path.open("r+b") as file:
                whole = count = 0
                for line in file:
                    if line.endswith(b"\n"):
                        whole, count = whole + len(line), count + 1
                file.truncate(whole)
            return count
        except (OSError, ValueError, KeyError):
            return 0

    def write(self, lines: Iterable[str], done: int) -> None:
        """Add the lines after those that are done, and finish."""
        try:
            if not done:
                self.path.write_bytes(b"")
                self._note.write_text(json.dumps({"of": self._mark}), encoding="utf-8")
            with self.path.open("ab") as file:
                for number, line in enumerate(lines, start=1):
                    file.write(line.encode() + b"\n")
                    if number % CHUNK == 0:
                        file.flush()
                file.flush()
                os.fsync(file.fileno())
            self.path.replace(self.output)
            self._note.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.output}: cannot be written ({error.strerror}); what is done is in "
                f"{self.path}, and the same command goes on from there."
            ) from None
