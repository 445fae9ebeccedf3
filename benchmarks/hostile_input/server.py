"""Run command lines in forked children that have imported Regard already, with limits.

Importing torch takes longer than most cases, so the parent imports everything once and forks. It
must not compute: threads do not survive a fork.
"""

import io
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

CPU_SECONDS, WALL_SECONDS = 20, 90
MEMORY = 3 << 30  # bytes beyond those of the parent
OUTPUT = 64 << 20  # bytes of a file that is written

MODULES = (
    "regard.cli",
    "regard.loading",
    "regard.api",
    "regard.interchange.importing",
    "regard.insight.look",
    "regard.training.trainer",
    "regard.evaluation.texts",
    "regard.interchange.exports",
    "pyarrow.parquet",
    "regard.training.checks.setup",
    "regard.insight.page.render",
    "tensorboardX",
    "torch._dynamo",  # imported by torch's optimizers
    "matplotlib.backends.backend_svg",
)
PACKAGES = (
    "regard.models",
    "regard.data.sources",
    "regard.data.tokenizers",
    "regard.attention",
    "regard.evaluation",
    "regard.positions",
    "regard.training.optim.optimizers",
    "regard.training.optim.schedules",
    "regard.training.tasks",
)


@dataclass(frozen=True)
class Outcome:
    """The end of a child: its class and what explains it."""

    kind: str  # done, refused, usage; or traceback, signal, hang, memory, message
    detail: str
    seconds: float
    megabytes: float


GOOD = ("done", "refused", "usage")


def preload() -> None:
    """Import what commands import."""
    import importlib

    os.environ.update(TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1", COLUMNS="1000")
    import torch

    torch.set_num_threads(1)
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    import regard.config

    for package in PACKAGES:
        regard.config.kind_specs(package)
    from regard.plotting import Line, plot_lines

    plot_lines({"fonts": Line([0.0, 1.0], [0.0, 1.0])}, "x", "y")  # they are looked for once
    from regard.hardware import matrix_peak

    matrix_peak(torch.device("cpu"))  # measured once for each process


def start(argv: list[str], folder: Path, stdin: bytes, draw: bool) -> int:
    """Fork a child that runs a command in a folder; return its process id.

    Unless `draw`, learning curves are left out: drawing them takes longer than the training.
    """
    (folder / ".stdin").write_bytes(stdin)
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        _limit()
        if not draw:
            _leave_out_curves()
        os.chdir(folder)
        _redirect(".stdin", ".stdout", ".stderr")
        code = _run(argv)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def wait(pids: set[int], begun: dict[int, float]) -> tuple[int, int, float]:
    """Wait until a child ends; kill one that takes too long.

    Returns:
        Its process id, its status, and its largest memory in megabytes.
    """
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid in pids:
            return pid, status, usage.ru_maxrss / 1024
        for late in pids:
            if time.monotonic() - begun[late] > WALL_SECONDS:
                os.kill(late, signal.SIGKILL)
        time.sleep(0.002)


def judge(folder: Path, status: int, seconds: float, megabytes: float) -> Outcome:
    """Return the outcome of a child that has ended."""
    with (folder / ".stderr").open("rb") as file:
        stderr = file.read(1 << 20).decode(errors="replace")
    lines = [line for line in stderr.splitlines() if line.strip()]
    last = lines[-1][:300] if lines else ""
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        kind, last = "hang", f"{seconds:.0f} s; {last}"
    elif code < 0:
        kind, last = "signal", f"{signal.Signals(-code).name}; {last}"
    elif "MemoryError" in stderr or "can't allocate memory" in stderr:
        kind = "memory"
    elif "Traceback (most recent call last)" in stderr or "panicked at" in stderr:
        kind = "traceback"
    elif code == 0:
        kind = "done"
    elif code == 2:
        kind = "usage"
    elif code == 1 and last.startswith("regard: ") and len(lines[-1]) < 1500:
        kind = "refused"
    else:
        kind, last = "message", f"exit code {code}; {last}"
    return Outcome(kind, last, seconds, megabytes)


def _leave_out_curves() -> None:
    from regard.training.reporting import curves

    curves.plot_lines = lambda *_, **__: "<svg/>"


def _limit() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    memory = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _redirect(stdin: str, stdout: str, stderr: str) -> None:
    for number, (name, flags) in enumerate(
        [
            (stdin, os.O_RDONLY),
            (stdout, os.O_WRONLY | os.O_CREAT),
            (stderr, os.O_WRONLY | os.O_CREAT),
        ]
    ):
        os.dup2(os.open(name, flags, 0o600), number)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8")
    errors = "backslashreplace"
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w")), encoding="utf-8", errors=errors, line_buffering=True
    )


def _run(argv: list[str]) -> int:
    import regard.cli

    sys.argv = ["regard", *argv]
    try:
        regard.cli.main()
    except SystemExit as done:
        if isinstance(done.code, str):
            print(done.code, file=sys.stderr)
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    return 0
