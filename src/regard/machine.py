"""What the machine offers, and how to use it well."""

import ctypes
import os
import platform
import shutil
import time
from dataclasses import dataclass

import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def computes_bfloat16(device: torch.device) -> bool:
    """Does the device multiply bfloat16 matrices faster than float32 ones?"""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and bool(torch.cpu._is_amx_tile_supported())


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


@dataclass(frozen=True)
class Memory:
    """In bytes."""

    total: int
    available: int


def memory() -> Memory | None:
    """Of the machine, or of the container where that has less; None where it cannot be told."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        free = page * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return Memory(total, free)


def compiler() -> str | None:
    """The C++ compiler that torch.compile would call."""
    names = (os.environ.get("CXX", ""), "c++", "g++", "clang++", "cl")
    return next((found for name in names if name and (found := shutil.which(name))), None)
