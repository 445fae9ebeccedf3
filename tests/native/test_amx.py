"""AMX: a processor that announces it but cannot execute it is used without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.native import amx


def test_bfloat16_products_do_not_crash() -> None:
    program = "import regard, torch; x = torch.ones(256, 256).bfloat16(); print((x @ x)[0, 0])"
    environment = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert "256" in process.stdout


@pytest.mark.skipif(not amx.amx_is_announced(), reason="this processor does not announce AMX")
def test_probe_agrees_with_onednn() -> None:
    program = "import torch; x = torch.ones(256, 256).bfloat16(); x @ x"
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"}
    process = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert amx.amx_executes() == (process.returncode == 0)


@pytest.mark.parametrize(("executes", "isa"), [(False, "AVX512_CORE_FP16"), (True, None)])
def test_onednn_isa_is_limited_where_amx_does_not_execute(
    monkeypatch: pytest.MonkeyPatch, executes: bool, isa: str | None
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(amx, "amx_is_announced", lambda: True)
    monkeypatch.setattr(amx, "amx_executes", lambda: executes)
    amx.avoid_broken_amx()
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == isa


def test_isa_set_by_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setattr(amx, "amx_is_announced", lambda: True)
    monkeypatch.setattr(amx, "amx_executes", lambda: False)
    amx.avoid_broken_amx()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_cpu_flags_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_flags = tmp_path / "cpuinfo"
    monkeypatch.setattr(amx, "_CPU_FLAGS", cpu_flags)
    assert not amx.amx_is_announced()
    cpu_flags.write_text("flags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8\n")
    assert amx.amx_is_announced()
