"""What happened, kept as it happens: metrics.jsonl, and TensorBoard's files.

A run that was cut off and goes on from a checkpoint says nothing twice: what was written after the
checkpoint is taken back first.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from regard.files import write_whole
from regard.training.events import Event, Look, Saved, Step

NAME = "metrics.jsonl"


@contextmanager
def keeping(folder: Path | None, step: int) -> Iterator[Callable[[Event], None]]:
    """Events given to what it yields are kept in the folder, after those up to `step`.

    Without a folder they are forgotten: of several processes, one keeps them.
    """
    if folder is None:
        yield lambda _: None
        return
    metrics = _Metrics(folder, step)
    try:
        yield metrics.write
    finally:
        metrics.close()


class _Metrics:
    def __init__(self, folder: Path, step: int) -> None:
        kept = [each for each in read(folder) if each["step"] <= step]
        write_whole(folder / NAME, "".join(json.dumps(each) + "\n" for each in kept).encode())
        self._file = (folder / NAME).open("a", encoding="utf-8")
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, event: Event) -> None:
        if isinstance(event, Saved):
            self._flush()
        if not isinstance(event, Step | Look):
            return
        self._file.write(json.dumps(asdict(event)) + "\n")
        values = (
            {f"dev/{name}": score for name, score in event.scores.items()}
            if isinstance(event, Look)
            else {"train/loss": event.loss, "train/norm": event.norm}
        )
        for name, value in values.items():
            self._board.add_scalar(name, value, event.step)

    def _flush(self) -> None:
        self._file.flush()
        self._board.flush()

    def close(self) -> None:
        self._file.close()
        self._board.close()


def read(folder: Path) -> list[dict[str, Any]]:
    """What was written so far; a last line cut off in the middle is left out."""
    path = folder / NAME
    if not path.is_file():
        return []
    events = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            break
    return events
