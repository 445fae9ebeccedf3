"""What happened, kept as it happens: metrics.jsonl, and TensorBoard's files.

A run that was cut off and goes on from a checkpoint says nothing twice: what was written after the
checkpoint is taken back first.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event as Record
from tensorboardX.proto.event_pb2 import SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from regard.atomic import write_atomic
from regard.errors import OutputError
from regard.training.events import Evaluated, Event, Saved, Step

NAME = "metrics.jsonl"


@contextmanager
def metrics_writer(folder: Path | None, step: int) -> Iterator[Callable[[Event], None]]:
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
        self._folder = folder
        kept = [each for each in read(folder) if each["step"] <= step]
        write_atomic(folder / NAME, "".join(json.dumps(each) + "\n" for each in kept).encode())
        # By lines: whenever it is killed, a checkpoint knows of no step that is not told of here.
        self._file = (folder / NAME).open("a", encoding="utf-8", buffering=1)
        board = folder / "tensorboard"
        board.mkdir(exist_ok=True)
        # Not by tensorboardX's SummaryWriter: its thread dies of a full disk, and who writes waits.
        self._board = EventsWriter(str(board / "events"))
        start = SessionLog(status=SessionLog.START)  # what earlier files say from here on is void
        self._board.write_event(Record(wall_time=time.time(), step=step + 1, session_log=start))

    def write(self, event: Event) -> None:
        try:
            if isinstance(event, Step | Evaluated):
                self._file.write(_to_json_line(event))
                self._board.write_event(_to_tensorboard(event))
            if isinstance(event, Saved):
                self._board.flush()
        except OSError as error:
            raise OutputError(
                f"{self._folder / NAME}: cannot be written ({error.strerror}); make room, then go "
                f"on with `regard resume {self._folder}`."
            ) from None

    def close(self) -> None:
        for file in (self._file, self._board):
            with suppress(OSError):  # on a full disk, of which `write` has told
                file.close()


def _to_tensorboard(event: Step | Evaluated) -> Any:
    values = (
        {f"dev/{name}": score for name, score in event.scores.items()}
        if isinstance(event, Evaluated)
        else {
            "train/loss": event.loss,
            "train/grad_norm": event.grad_norm,
            **_aux_metrics(event, "train/"),
        }
    )
    scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
    return Record(wall_time=time.time(), step=event.step, summary=Summary(value=scalars))


def _to_json_line(event: Step | Evaluated) -> str:
    """One line of JSON, which has no number for what is not finite: null stands for it."""
    told = asdict(event)
    if isinstance(event, Step):
        del told["aux_loss"], told["counts"]
        told |= _aux_metrics(event)
    content = json.loads(json.dumps(told), parse_constant=lambda _: None)
    return json.dumps(content) + "\n"


def _aux_metrics(event: Step, prefix: str = "") -> dict[str, float]:
    """What parts of the model said beside their answers; most have nothing to say."""
    if not event.counts:
        return {}
    return {
        f"{prefix}{name}": value
        for name, value in {"aux_loss": event.aux_loss, **event.counts}.items()
    }


def total_counts(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """All that parts of the model counted, over all that was read."""
    names = ("assignments", "dropped")
    return {name: sum(each.get(name, 0) for each in events) for name in names}


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
