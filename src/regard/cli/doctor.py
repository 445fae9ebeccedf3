"""regard doctor: report the hardware and software of this machine and what Regard uses of it."""

import json
import platform
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from regard.cli._shared.streams import echo


class Row(NamedTuple):
    """One line of the report."""

    name: str
    offered: str  # by the machine
    used: str  # by Regard


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Report the hardware of this machine and what Regard uses of it."""
    from rich.table import Table

    from regard.training.reporting.progress import plain_console

    rows = [*_versions(), *_processor(), *_memory_and_disk()]
    if as_json:
        report = {row.name: {"offered": row.offered, "used": row.used} for row in rows}
        return echo(json.dumps(report, indent=2, ensure_ascii=False))
    table = Table("", "this machine", "Regard", box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return plain_console().print(table)


def _versions() -> list[Row]:
    from importlib.metadata import version

    from regard import __version__

    modules = ("torch", "tokenizers") if _has_torch() else ("tokenizers",)
    installed = ", ".join(f"{name} {version(name)}" for name in modules)
    return [Row("versions", f"Python {platform.python_version()}, {installed}", __version__)]


def _has_torch() -> bool:
    return find_spec("torch") is not None


def _processor() -> list[Row]:
    from regard import hardware

    compiler = hardware.compiler() or "none"
    return [
        *(_torch() if _has_torch() else _without_torch()),
        _engine(),
        Row("C++ compiler", compiler, "compiles the engine at installation"),
    ]


def _without_torch() -> list[Row]:
    from regard import hardware
    from regard.missing_modules import install_command

    return [
        Row("cores", str(hardware.cores()), f"threads: {hardware.num_threads()}"),
        Row("torch", "not installed", f"decodes only; for the rest, {install_command('torch')}"),
    ]


def _torch() -> list[Row]:
    """Return what torch uses of the processor."""
    import torch

    from regard import hardware

    device, cores = hardware.best_device(), hardware.cores()
    threads = torch.get_num_threads()
    advice = f": too many, set OMP_NUM_THREADS={cores}" * (threads > cores)
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    fast = hardware.computes_bfloat16(device)
    speed = f"products {hardware.bfloat16_speedup():.1f} × as fast as in float32"
    capability = torch.backends.cpu.get_cpu_capability()
    peak = hardware.matrix_peak(device)
    return [
        Row("device", name, f"trains on {device.type}"),
        Row("cores", f"{cores}, {capability}", f"threads: {threads}{advice}"),
        Row("float32", f"{peak / 1e9:,.0f} GFLOP/s", "the peak for the utilization of training"),
        Row(
            "bfloat16",
            speed if device.type == "cpu" else ("" if fast else "not ") + "computed by the device",
            f"training.precision=auto is {'bfloat16, of wide models' if fast else 'float32'}",
        ),
    ]


def _engine() -> Row:
    """Return the instruction sets of this processor, and the one that the library uses."""
    from regard.native.library import current_isa, library, supported_isas

    loaded = library()
    if loaded is None:
        return Row(
            "engine", "not compiled", "decodes with torch" if _has_torch() else "cannot decode"
        )
    offered = ", ".join(supported_isas(loaded))
    return Row("engine", offered, f"decodes with {current_isa(loaded)}; also sparse attention")


def _memory_and_disk() -> list[Row]:
    from regard import hardware

    memory, disk = hardware.memory(), shutil.disk_usage(Path.cwd())
    available = f"{_gb(memory.available)} of {_gb(memory.total)} available" if memory else "unknown"
    keeps_freed_memory = hardware.keep_freed_memory()
    return [
        Row("memory", available, "model, gradients and one batch; data stay on the disk"),
        Row(
            "allocator",
            " ".join(platform.libc_ver()) or platform.system(),
            "keeps freed memory for the next tensor" if keeps_freed_memory else "default settings",
        ),
        Row(
            "disk",
            f"{_gb(disk.free)} free in {Path.cwd()}",
            "prepared data and run folders",
        ),
    ]


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
