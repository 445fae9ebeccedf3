"""What the machine offers, and how to use it well."""

import ctypes
import math
import os
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.native.amx import amx_is_used

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def computes_bfloat16(device: torch.device) -> bool:
    """Does the device multiply bfloat16 matrices faster than float32 ones?"""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and amx_is_used()


def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed for the next tensor; False where there is no glibc.

    By default it gives large blocks back to the system at once, and each new tensor is paid for in
    page faults again: about a fifth of a training step on a CPU.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    largest = 2**31 - 1
    return bool(mallopt(_M_MMAP_THRESHOLD, 1 << 30) and mallopt(_M_TRIM_THRESHOLD, largest))


def matrix_peak(device: torch.device, seconds: float = 0.3) -> float:
    """Floating-point operations a second in the best of several large float32 matrix products."""
    size = 1024 if device.type == "cpu" else 4096
    a, b = torch.rand(2, size, size, device=device)
    c = torch.empty_like(a)
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        torch.mm(a, b, out=c)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def cores(root: Path = Path("/")) -> int:
    """That this process may use at a time: of the machine, or of the container."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    quotas = (_cpu_quota(group) for group in _control_groups("cpu", root))
    return min([allowed, *(math.ceil(quota) for quota in quotas if quota)])


def int8_instructions() -> list[str]:
    """Those that the processor has for products of 8-bit integers; without, these are slow."""
    names = ("avx_vnni", "avx_vnni_int8", "avx512_vnni", "amx_int8", "dot", "i8mm")
    offered = torch.cpu.get_capabilities()
    return [name for name in names if offered.get(name)]


@dataclass(frozen=True)
class Memory:
    """In bytes."""

    total: int
    available: int


def memory(root: Path = Path("/")) -> Memory | None:
    """Of the machine, or of the container where that has less; None where it cannot be told."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        free = page * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    # What caches files is not free, yet can be had.
    available = 1024 * (_entry(root / "proc/meminfo", "MemAvailable:") or 0) or free
    for group in _control_groups("memory", root):
        if container := _container_memory(group):
            total = min(total, container.total)
            available = min(available, container.available)
    return Memory(total, available)


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of the control groups (what Linux makes containers of) that this process is in.

    The innermost comes first, and each limits those within. There are two versions: the second
    keeps all controllers in one tree, `0::/path`; the first has a tree for each, `4:memory:/path`.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for _, names, path in (line.split(":", 2) for line in lines):
        if not names or controller in names.split(","):
            tree = root / "sys/fs/cgroup" / (controller if names else "")
            inner = tree / path.lstrip("/")
            yield from (inner, *(each for each in inner.parents if each.is_relative_to(tree)))


def _container_memory(group: Path) -> Memory | None:
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    if limit is None:
        return None
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    cache = _entry(group / "memory.stat", "inactive_file") or 0
    return Memory(limit, max(0, limit - used + cache))


def _cpu_quota(group: Path) -> float | None:
    """Cores' worth of time that a control group may take."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # the first version, or "max"
        pass
    quota_us, period_us = (_number(group / f"cpu.cfs_{what}_us") for what in ("quota", "period"))
    return quota_us / period_us if quota_us and period_us and quota_us > 0 else None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _entry(path: Path, name: str) -> int | None:
    """The number after a name in a file of lines `name number`."""
    try:
        lines = path.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return None


def compiler() -> str | None:
    """The C++ compiler that torch.compile would call."""
    names = (os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl")
    return next((found for name in names if name and (found := shutil.which(name))), None)
