"""Limits of a container, in both versions of control groups, and the number of threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard import hardware
from regard.errors import ConfigError

MB = 1 << 20


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_machine_without_containers(tmp_path: Path) -> None:
    memory = hardware.memory(tmp_path)
    assert memory is not None
    assert 0 < memory.available <= memory.total
    assert hardware.cores(tmp_path) >= 1


def test_files_kept_in_memory_can_be_had(tmp_path: Path) -> None:
    root = write(tmp_path, {"proc/meminfo": "MemFree: 7 kB\nMemAvailable:   5 kB\n"})
    memory = hardware.memory(root)
    assert memory is not None
    assert memory.available == 5 * 1024


SECOND = {
    "proc/self/cgroup": "0::/shelf/box\n",
    "sys/fs/cgroup/shelf/box/memory.max": "max\n",
    "sys/fs/cgroup/shelf/memory.max": f"{100 * MB}\n",
    "sys/fs/cgroup/shelf/memory.current": f"{70 * MB}\n",
    "sys/fs/cgroup/shelf/memory.stat": f"anon 5\ninactive_file {20 * MB}\n",
    "sys/fs/cgroup/shelf/box/cpu.max": "50000 100000\n",
    "sys/fs/cgroup/cpu.max": "max 100000\n",
}
FIRST = {
    "proc/self/cgroup": "4:memory:/shelf/box\n3:cpu,cpuacct:/box\n0::/\n",
    # Inside a container: the path differs from the one in /proc/self/cgroup.
    "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{100 * MB}\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{70 * MB}\n",
    "sys/fs/cgroup/memory/memory.stat": f"inactive_file {20 * MB}\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize("files", [FIRST, SECOND], ids=["first", "second"])
def test_the_tightest_limit_counts(tmp_path: Path, files: dict[str, str]) -> None:
    root = write(tmp_path, files)
    assert hardware.memory(root) == hardware.Memory(total=100 * MB, available=50 * MB)
    assert hardware.cores(root) == 1


def test_a_limit_beyond_the_machine_is_none(tmp_path: Path) -> None:
    free = hardware.memory(tmp_path / "nothing")
    root = write(tmp_path, {**FIRST, "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63}\n"})
    memory = hardware.memory(root)
    assert memory is not None
    assert free is not None
    assert memory.total == free.total


def test_number_of_threads_comes_from_the_environment_without_torch() -> None:
    code = "from regard.hardware import cores, num_threads; print(num_threads() - {})"
    for environment, expected in (
        ({"REGARD_THREADS": "3", "OMP_NUM_THREADS": "2"}, "3"),
        ({"OMP_NUM_THREADS": "2,1"}, "2"),
        ({}, "cores()"),
    ):
        names = ("REGARD_THREADS", "OMP_NUM_THREADS")
        others = {name: value for name, value in os.environ.items() if name not in names}
        command = [sys.executable, "-c", code.format(expected)]
        done = subprocess.run(command, env=others | environment, capture_output=True, text=True)
        assert done.stdout == "0\n", done.stderr


def test_number_of_threads_is_torchs_where_torch_is_imported(monkeypatch) -> None:
    monkeypatch.delenv("REGARD_THREADS", raising=False)
    assert hardware.num_threads() == torch.get_num_threads()
    with hardware.single_threaded():
        assert hardware.num_threads() == 1
    monkeypatch.setenv("REGARD_THREADS", "3")
    assert hardware.num_threads() == 3
    monkeypatch.setenv("REGARD_THREADS", "many")
    with pytest.raises(ConfigError, match="REGARD_THREADS is 'many'; it must be a number"):
        hardware.num_threads()


@pytest.mark.parametrize(("milliseconds", "fast"), [(0.4, True), (0.9, False), (50.0, False)])
def test_bfloat16_products_are_measured(
    monkeypatch: pytest.MonkeyPatch, milliseconds: float, fast: bool
) -> None:
    clock, products = [0.0], []

    def multiply(a: torch.Tensor, _: torch.Tensor) -> None:
        products.append(a.dtype)
        clock[0] += 1e-3 * (milliseconds if a.dtype == torch.bfloat16 else 1.0)

    monkeypatch.setattr(torch, "mm", multiply)
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: clock[0])
    hardware.bfloat16_speedup.cache_clear()
    try:
        assert hardware.computes_bfloat16(torch.device("cpu")) == fast
        assert hardware.bfloat16_speedup() == pytest.approx(1 / milliseconds)
    finally:
        hardware.bfloat16_speedup.cache_clear()
    # Where the instructions are emulated, one product is enough.
    assert products.count(torch.bfloat16) == (1 if milliseconds > 10 else 10)
