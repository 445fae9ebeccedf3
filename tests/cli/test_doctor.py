"""regard doctor: the resources of the machine and their use."""

import json

import pytest
import torch

from regard import __version__, hardware
from regard.native.library import current_isa, library

ROWS = {
    "versions",
    "device",
    "cores",
    "float32",
    "bfloat16",
    "engine",
    "C++ compiler",
    "memory",
    "allocator",
    "disk",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "matrix_peak", lambda _: 123e9)


def test_table_has_every_row(call) -> None:
    result = call("doctor")
    assert result.code == 0, result.err
    for row in (*ROWS, "123 GFLOP/s", torch.__version__, __version__):
        assert row in result.out


def test_json_has_the_rows_of_the_table(call) -> None:
    rows = json.loads(call("doctor", "--json").out)
    assert rows.keys() == ROWS
    assert all(row.keys() == {"offered", "used"} for row in rows.values())
    assert rows["versions"]["used"] == __version__
    assert rows["float32"]["offered"] == "123 GFLOP/s"
    assert rows["cores"]["used"] == f"threads: {torch.get_num_threads()}"


def test_instruction_sets_of_the_engine(call) -> None:
    loaded = library()
    row = json.loads(call("doctor", "--json").out)["engine"]
    if loaded is None:
        assert row == {"offered": "not compiled", "used": "decodes with torch"}
    else:
        assert row["offered"].endswith("portable")
        assert row["used"] == f"decodes with {current_isa(loaded)}; also sparse attention"


def test_more_threads_than_cores_are_reported(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "cores", lambda: 3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    rows = json.loads(call("doctor", "--json").out)
    assert rows["cores"]["used"] == "threads: 64: too many, set OMP_NUM_THREADS=3"


@pytest.mark.parametrize(
    ("speedup", "used"), [(2.24, "bfloat16, of wide models"), (0.04, "float32")]
)
def test_bfloat16_is_used_if_it_is_measured_to_be_fast(
    call, monkeypatch: pytest.MonkeyPatch, speedup: float, used: str
) -> None:
    monkeypatch.setattr(hardware, "bfloat16_speedup", lambda: speedup)
    row = json.loads(call("doctor", "--json").out)["bfloat16"]
    assert row["offered"] == f"products {speedup:.1f} × as fast as in float32"
    assert row["used"] == f"training.precision=auto is {used}"


def test_unknown_properties_are_shown_as_unknown(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "memory", lambda: None)
    monkeypatch.setattr(hardware, "compiler", lambda: None)
    monkeypatch.setattr(hardware, "keep_freed_memory", lambda: False)
    rows = json.loads(call("doctor", "--json").out)
    assert rows["memory"]["offered"] == "unknown"
    assert rows["C++ compiler"]["offered"] == "none"
    assert rows["allocator"]["used"] == "default settings"
