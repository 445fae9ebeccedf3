"""Metrics of a run, each step once, in metrics.jsonl and for TensorBoard."""

import errno
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event as Record
from tensorboardX.proto.event_pb2 import SessionLog

from regard.errors import OutputError
from regard.training.events import Evaluated, Saved, Step
from regard.training.reporting.metrics import NAME, metrics_writer, read


def step(number: int, loss: float = 1.5) -> Step:
    return Step(number, loss, 100, 0.25, 0.1 * number, 0.01 * number, applied=math.isfinite(loss))


def evaluation(number: int) -> Evaluated:
    return Evaluated(number, {"loss": 2.5, "bleu": 12.0}, best=True, seconds=0.1 * number)


def write_events(folder: Path, since: int, *events: Any) -> None:
    with metrics_writer(folder, since) as write:
        for event in events:
            write(event)


def records(folder: Path) -> list[Any]:
    """Parse TensorBoard's files: length (eight bytes), checksum, record, checksum."""
    events = []
    for path in sorted((folder / "tensorboard").iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            events.append(Record.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return events


def test_steps_and_evaluations_are_read_back(tmp_path: Path) -> None:
    write_events(tmp_path, 0, step(1), step(2), evaluation(2), Saved(2, tmp_path), step(3))
    events = read(tmp_path)
    assert [event["step"] for event in events] == [1, 2, 2, 3]
    assert events[0]["loss"] == 1.5
    assert events[2]["scores"] == {"loss": 2.5, "bleu": 12.0}


def test_steps_repeated_after_resuming_are_recorded_once(tmp_path: Path) -> None:
    write_events(tmp_path, 0, *map(step, range(1, 9)), evaluation(8))
    write_events(tmp_path, 5, step(6), step(7))
    assert [event["step"] for event in read(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]


def test_events_are_written_to_disk_at_once(tmp_path: Path) -> None:
    """A killed process loses no event."""
    with metrics_writer(tmp_path, 0) as write:
        for number in range(1, 4):
            write(step(number))
            assert len(read(tmp_path)) == number


def test_a_truncated_line_is_ignored(tmp_path: Path) -> None:
    write_events(tmp_path, 0, step(1), step(2))
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:-10])
    assert [event["step"] for event in read(tmp_path)] == [1]
    write_events(tmp_path, 1, step(2))
    assert [event["step"] for event in read(tmp_path)] == [1, 2]


def test_a_folder_without_metrics_has_no_events(tmp_path: Path) -> None:
    assert read(tmp_path) == []


def test_without_a_folder_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with metrics_writer(None, 0) as write:
        write(step(1))
    assert list(tmp_path.iterdir()) == []


def test_every_line_is_standard_json(tmp_path: Path) -> None:
    """NaN and Infinity are Python's extensions of JSON."""
    write_events(tmp_path, 0, step(1, float("nan")), step(2, float("inf")), step(3))

    def refuse(constant: str) -> None:
        pytest.fail(f"{constant} is not JSON")

    lines = (tmp_path / NAME).read_text().splitlines()
    losses = [json.loads(line, parse_constant=refuse)["loss"] for line in lines]
    assert losses == [None, None, 1.5]


def test_tensorboard_has_every_value_at_its_step(tmp_path: Path) -> None:
    write_events(tmp_path, 0, step(1), step(2, 0.5), evaluation(2))
    scalars = [
        (value.tag, record.step, value.simple_value)
        for record in records(tmp_path)
        for value in record.summary.value
    ]
    assert scalars == [
        ("train/loss", 1, 1.5),
        ("train/grad_norm", 1, 0.25),
        ("train/loss", 2, 0.5),
        ("train/grad_norm", 2, 0.25),
        ("dev/loss", 2, 2.5),
        ("dev/bleu", 2, 12.0),
    ]


def test_tensorboard_sessions_start_at_the_resumed_step(tmp_path: Path) -> None:
    """TensorBoard discards the steps of earlier files from the start of a session on."""
    write_events(tmp_path, 5, step(6))
    starts = [r.step for r in records(tmp_path) if r.session_log.status == SessionLog.START]
    assert starts == [6]
    assert records(tmp_path)[0].file_version == "brain.Event:2"


@pytest.mark.parametrize("what", ["_to_json_line", "_to_tensorboard"])
def test_a_full_disk_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(f"regard.training.reporting.metrics.{what}", full)
    with pytest.raises(OutputError, match=r"metrics.jsonl: .*No space left.*regard resume"):
        write_events(tmp_path, 0, step(1))


def test_a_file_in_the_way_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file")
    with pytest.raises(OutputError, match=r"tensorboard: cannot be written \(File exists\)"):
        write_events(tmp_path, 0)
