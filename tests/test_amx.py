"""A processor that announces AMX and cannot execute it is used without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import hardware
from regard.native import amx


def test_bfloat16_products_never_end_the_process() -> None:
    program = "import regard, torch; x = torch.ones(256, 256).bfloat16(); print((x @ x)[0, 0])"
    environment = {key: value for key, value in os.environ.items() if key != "ONEDNN_MAX_CPU_ISA"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "256" in done.stdout


@pytest.mark.parametrize(("executes", "isa"), [(False, "AVX512_CORE_FP16"), (True, None)])
def test_onednn_is_kept_from_amx_that_does_not_execute(
    monkeypatch: pytest.MonkeyPatch, executes: bool, isa: str | None
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.setattr(amx, "amx_is_announced", lambda: True)
    monkeypatch.setattr(amx, "amx_executes", lambda: executes)
    amx.avoid_broken_amx()
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == isa
    assert hardware.computes_bfloat16(torch.device("cpu")) == executes


def test_a_choice_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setattr(amx, "amx_executes", lambda: True)
    amx.avoid_broken_amx()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert not hardware.computes_bfloat16(torch.device("cpu"))


def test_the_features_of_the_processor_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "cpuinfo"
    monkeypatch.setattr(amx, "_CPU_FLAGS", listed)
    assert not amx.amx_is_announced()
    listed.write_text("flags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8\n")
    assert amx.amx_is_announced()
