"""Events of training as files: metrics.jsonl, and TensorBoard's.

When a run is resumed from a checkpoint, the lines after the checkpoint are removed first, so that
no step is written twice.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event as Record
from tensorboardX.proto.event_pb2 import SessionLog
from tensorboardX.proto.summary_pb2 import Summary

from regard.atomic import write_atomic
from regard.errors import OutputError, RunError
from regard.json_files import JsonSpec, parse_json, validate_json
from regard.training.events import Evaluated, Event, Saved, Step

NAME = "metrics.jsonl"


@contextmanager
def metrics_writer(folder: Path | None, step: int) -> Iterator[Callable[[Event], None]]:
    """Yield a function that writes events into the folder, after those up to `step`.

    Without a folder it does nothing: of several processes, only the main one writes.
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
        earlier = [event for event in read(folder) if event["step"] <= step]
        write_atomic(folder / NAME, "".join(json.dumps(event) + "\n" for event in earlier).encode())
        try:
            self._open(step)
        except OSError as error:
            raise self._write_error(error) from None

    def _open(self, step: int) -> None:
        folder = self._folder
        board = folder / "tensorboard"
        board.mkdir(exist_ok=True)
        # Not tensorboardX's SummaryWriter: on a full disk its thread ends and writing blocks.
        self._board = EventsWriter(str(board / "events"))
        # With it, TensorBoard ignores later steps of earlier files.
        start = SessionLog(status=SessionLog.START)
        self._board.write_event(Record(wall_time=time.time(), step=step + 1, session_log=start))
        # Line-buffered: if the process is killed, every step before a checkpoint is written here.
        self._file = (folder / NAME).open("a", encoding="utf-8", buffering=1)

    def write(self, event: Event) -> None:
        try:
            if isinstance(event, Step | Evaluated):
                self._file.write(_to_json_line(event))
                self._board.write_event(_to_tensorboard(event))
            if isinstance(event, Saved):
                self._board.flush()
        except OSError as error:
            raise self._write_error(error) from None

    def _write_error(self, error: OSError) -> OutputError:
        return OutputError(
            f"{error.filename or self._folder / NAME}: cannot be written ({error.strerror}); free "
            f"some space, then continue with `regard resume {self._folder}`."
        )

    def close(self) -> None:
        for file in (self._file, self._board):
            with suppress(OSError):  # on a full disk, which `write` has reported
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
    """Return a line of JSON; null stands for numbers that are not finite."""
    content = asdict(event)
    if isinstance(event, Step):
        del content["aux_loss"], content["counts"]
        content |= _aux_metrics(event)
    finite = json.loads(json.dumps(content), parse_constant=lambda _: None)
    return json.dumps(finite) + "\n"


def _aux_metrics(event: Step, prefix: str = "") -> dict[str, float]:
    """Return the auxiliary loss and the counts of layers; most models have none."""
    if not event.counts:
        return {}
    return {
        f"{prefix}{name}": value
        for name, value in {"aux_loss": event.aux_loss, **event.counts}.items()
    }


def total_counts(events: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the counts of layers, summed over all steps."""
    names = ("assignments", "dropped")
    return {name: sum(event.get(name, 0) for event in events) for name in names}


class _Line(JsonSpec):
    step: int = Field(ge=0)
    loss: float | None = None
    scores: dict[str, float | None] | None = None
    assignments: int = 0
    dropped: int = 0


def read(folder: Path) -> list[dict[str, Any]]:
    """Read the events written so far, without an incomplete last line.

    Raises:
        RunError: another line is damaged; the message has its number.
    """
    path = folder / NAME
    if not path.is_file():
        return []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}).") from None
    return [
        _event(line, f"{path}:{number}")
        for number, line in enumerate(lines[:-1], start=1)
        if line.strip()
    ]


def _event(line: bytes, where: str) -> dict[str, Any]:
    content = parse_json(line, where, finite=False)
    validate_json(_Line, content, where)
    return dict(content)
