"""regard doctor: what the machine offers, and what Regard makes of it."""

import json

import pytest
import torch

from regard import __version__, hardware

ROWS = {
    "versions",
    "device",
    "cores",
    "float32",
    "bfloat16",
    "int8",
    "C++ compiler",
    "memory",
    "allocator",
    "disk",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "matrix_peak", lambda _: 123e9)


def test_the_table_has_every_row(call) -> None:
    answer = call("doctor")
    assert answer.code == 0, answer.err
    for row in (*ROWS, "123 GFLOP/s", torch.__version__, __version__):
        assert row in answer.out


def test_json_says_the_same(call) -> None:
    found = json.loads(call("doctor", "--json").out)
    assert found.keys() == ROWS
    assert all(each.keys() == {"offered", "used"} for each in found.values())
    assert found["versions"]["used"] == __version__
    assert found["float32"]["offered"] == "123 GFLOP/s"
    assert found["cores"]["used"] == f"threads: {torch.get_num_threads()}"


def test_more_threads_than_cores_are_too_many(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "cores", lambda: 3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    found = json.loads(call("doctor", "--json").out)
    assert found["cores"]["used"] == "threads: 64: too many, set OMP_NUM_THREADS=3"


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_is_used_where_it_is_fast(
    call, monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    monkeypatch.setattr(hardware, "computes_bfloat16", lambda _: fast)
    used = json.loads(call("doctor", "--json").out)["bfloat16"]["used"]
    assert used == f"training.precision=auto is {'bfloat16' if fast else 'float32'}"


def test_what_a_machine_does_not_tell_is_said(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "memory", lambda: None)
    monkeypatch.setattr(hardware, "compiler", lambda: None)
    monkeypatch.setattr(hardware, "keep_freed_memory", lambda: False)
    found = json.loads(call("doctor", "--json").out)
    assert found["memory"]["offered"] == "unknown"
    assert found["C++ compiler"]["offered"] == "none"
    assert found["allocator"]["used"] == "default settings"
