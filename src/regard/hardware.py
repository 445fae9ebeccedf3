"""Hardware: devices, cores, memory and instruction sets that this process can use."""

import ctypes
import math
import os
import platform
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import ConfigError

if TYPE_CHECKING:
    import torch

THREADS = "REGARD_THREADS"
_of_thread = threading.local()  # its attribute `count`: number of threads of this thread's calls

FAST_BFLOAT16 = 1.3  # measured speedup from which bfloat16 products are worth their conversions

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt


def best_device() -> "torch.device":
    """Return the CUDA device if there is one, else MPS, else the CPU."""
    import torch

    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def computes_bfloat16(device: "torch.device") -> bool:
    """Return True if the device multiplies bfloat16 matrices faster than float32 ones."""
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bfloat16_speedup() >= FAST_BFLOAT16


@cache
def bfloat16_speedup() -> float:
    """Measure how much faster the CPU multiplies bfloat16 matrices than float32 ones.

    The matrices are those of a small model's training. Processors without the instructions (AVX-512
    BF16, AMX, bf16 of arm64) emulate them, so the value is far from 1 on either side.
    """
    import torch

    a, b = torch.rand(1024, 256), torch.rand(256, 1024)
    pairs = [(a, b), (a.bfloat16(), b.bfloat16())]
    best = [math.inf, math.inf]
    for _ in range(10):
        for number, pair in enumerate(pairs):
            start = time.perf_counter()
            torch.mm(*pair)
            best[number] = min(best[number], time.perf_counter() - start)
        if best[1] > 10 * best[0]:  # emulated: every further product costs milliseconds
            break
    return best[0] / best[1]


def keep_freed_memory() -> bool:
    """Make glibc keep freed memory for the next tensor; return False without glibc.

    By default glibc returns large blocks to the system at once, and every new tensor costs page
    faults again: about a fifth of a training step on a CPU.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    largest = 2**31 - 1
    return bool(mallopt(_M_MMAP_THRESHOLD, 1 << 30) and mallopt(_M_TRIM_THRESHOLD, largest))


def trim_memory() -> None:
    """Give freed memory back to the system, where the C library can."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def matrix_peak(
    device: "torch.device", dtype: "torch.dtype | None" = None, seconds: float = 0.3
) -> float:
    """Measure the peak of matrix products in floating-point operations a second (default:
    float32)."""
    import torch

    size = 1024 if device.type == "cpu" else 4096
    a, b = torch.rand(2, size, size, device=device).to(dtype or torch.float32)
    c = torch.empty_like(a)
    best, deadline = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        start = time.perf_counter()
        torch.mm(a, b, out=c)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        elif device.type == "mps":
            torch.mps.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, container limits included."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    quotas = (_cpu_quota(group) for group in _control_groups("cpu", root))
    return min([allowed, *(math.ceil(quota) for quota in quotas if quota)])


def num_threads() -> int:
    """Return the number of threads that a call of the compiled engine uses.

    It is REGARD_THREADS if that is set, else torch's number in a process that has imported torch,
    else OMP_NUM_THREADS, else the number of cores; within `single_threaded`, 1.
    """
    if count := getattr(_of_thread, "count", None):
        return int(count)
    torch = sys.modules.get("torch")
    if torch is not None and THREADS not in os.environ:
        return int(torch.get_num_threads())
    return _threads_of_environment(os.environ.get(THREADS), os.environ.get("OMP_NUM_THREADS"))


@contextmanager
def single_threaded() -> Iterator[None]:
    """Give the engine calls of this thread one core: other threads use the others."""
    before = getattr(_of_thread, "count", None)
    _of_thread.count = 1
    try:
        yield
    finally:
        _of_thread.count = before


@cache
def _threads_of_environment(own: str | None, openmp: str | None) -> int:
    if own is not None:
        if not own.isdecimal() or not 1 <= int(own) <= 1024:
            raise ConfigError(f"{THREADS} is {own!r}; it must be a number of threads, 1 to 1,024.")
        return int(own)
    first = (openmp or "").split(",")[0].strip()  # OpenMP takes a list, of nested levels
    return int(first) if first.isdecimal() and int(first) > 0 else cores()


@dataclass(frozen=True)
class Memory:
    """Memory in bytes."""

    total: int
    available: int


def memory(root: Path = Path("/")) -> Memory | None:
    """Return the memory of the machine or its container, the smaller; None if unknown."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        free = page * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    # Memory used by the file cache is available, though not free.
    available = 1024 * (_entry(root / "proc/meminfo", "MemAvailable:") or 0) or free
    for group in _control_groups("memory", root):
        if container := _container_memory(group):
            total = min(total, container.total)
            available = min(available, container.available)
    return Memory(total, available)


def _control_groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups (Linux containers), innermost first.

    Each group limits those within it. Version 2 keeps all controllers in one tree, `0::/path`;
    version 1 has a tree for each, `4:memory:/path`.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for _, names, path in (line.split(":", 2) for line in lines):
        if not names or controller in names.split(","):
            tree = root / "sys/fs/cgroup" / (controller if names else "")
            inner = tree / path.lstrip("/")
            yield from (inner, *(outer for outer in inner.parents if outer.is_relative_to(tree)))


def _container_memory(group: Path) -> Memory | None:
    limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
    if limit is None:
        return None
    used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes") or 0
    cache = _entry(group / "memory.stat", "inactive_file") or 0
    return Memory(limit, max(0, limit - used + cache))


def _cpu_quota(group: Path) -> float | None:
    """Return the CPU time that a control group may use, in cores; None without a limit."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # version 1, or "max"
        pass
    quota_us, period_us = (_number(group / f"cpu.cfs_{what}_us") for what in ("quota", "period"))
    return quota_us / period_us if quota_us and period_us and quota_us > 0 else None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _entry(path: Path, name: str) -> int | None:
    """Return the number after `name` in a file of lines `name number`; None if absent."""
    try:
        lines = path.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))
    except (OSError, StopIteration):
        return None


def compiler() -> str | None:
    """Return the path of the C++ compiler that torch.compile would call; None without one."""
    names = (os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl")
    return next((path for name in names if name and (path := shutil.which(name))), None)
