"""regard doctor: what the machine offers, and what Regard makes of it."""

import json
import platform
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NamedTuple

import typer


class Finding(NamedTuple):
    what: str
    offered: str  # by the machine
    used: str  # by Regard


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Report what this machine offers and what Regard will use of it."""
    from rich.console import Console
    from rich.table import Table

    found = [*_versions(), *_processor(), *_room()]
    if as_json:
        report = {each.what: {"offered": each.offered, "used": each.used} for each in found}
        return typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    table = Table("", "this machine", "Regard", box=None, header_style="bold", pad_edge=False)
    for each in found:
        table.add_row(*each)
    return Console().print(table)


def _versions() -> list[Finding]:
    installed = ", ".join(f"{name} {version(name)}" for name in ("torch", "tokenizers"))
    return [
        Finding("versions", f"Python {platform.python_version()}, {installed}", version("regard"))
    ]


def _processor() -> list[Finding]:
    import torch

    from regard import hardware
    from regard.engine.library import library

    device, cores = hardware.best_device(), hardware.cores()
    threads = torch.get_num_threads()
    advice = f": too many, set OMP_NUM_THREADS={cores}" * (threads > cores)
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    fast = hardware.computes_bfloat16(device)
    int8 = ", ".join(hardware.int8_instructions()) or "no instructions of its own"
    capability = torch.backends.cpu.get_cpu_capability()
    peak = hardware.matrix_peak(device)
    return [
        Finding("device", name, f"trains on {device.type}"),
        Finding("cores", f"{cores}, {capability}", f"threads: {threads}{advice}"),
        Finding("float32", f"{peak / 1e9:,.0f} GFLOP/s", "the peak that training is held against"),
        Finding(
            "bfloat16",
            "faster than float32" if fast else "not faster than float32",
            f"training.precision=auto is {'bfloat16' if fast else 'float32'}",
        ),
        Finding("int8", int8, "decodes with it when asked: --int8" if library() else "not used"),
        Finding(
            "C++ compiler",
            hardware.compiler() or "none",
            "decodes, and looks around in long texts, with what it compiled"
            if library()
            else "decodes with torch: nothing was compiled",
        ),
    ]


def _room() -> list[Finding]:
    from regard import hardware

    memory, disk = hardware.memory(), shutil.disk_usage(Path.cwd())
    told = f"{_gb(memory.available)} of {_gb(memory.total)} available" if memory else "not told"
    kept = hardware.keep_freed_memory()
    return [
        Finding("memory", told, "model, gradients and one batch; data stay on the disk"),
        Finding(
            "allocator",
            " ".join(platform.libc_ver()) or platform.system(),
            "keeps freed memory for the next tensor" if kept else "left as it is",
        ),
        Finding(
            "disk",
            f"{_gb(disk.free)} free in {Path.cwd()}",
            "prepared data and run folders",
        ),
    ]


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
