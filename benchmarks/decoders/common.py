"""What all decoding engines share: the work, the clock and the answer.

An engine is started as `python ENGINE.py WORK.json OUT.json`, loads its model, does the work once
to warm up on a few lines and then with the clock running, again and again for some seconds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 60  # tokens of a translation, in every engine: captions have half as many
LONG_ENOUGH = 5  # seconds of work at least: what takes less is done again


@dataclass(frozen=True)
class Work:
    """Lines to translate, or prompts to continue."""

    model: str  # a folder in the engine's own format
    lines: list[str]
    beam: int = 1
    batch: int = 1  # 1: line by line; else all lines at once, so many together at most
    threads: int = 1  # of each worker
    workers: int = 1
    bits: int = 32
    quick: bool = True  # a beam ends after so many sentences as it is wide
    tokens: int = 0  # of a continuation; 0: translate

    @classmethod
    def given(cls) -> "Work":
        return cls(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


Answer = Callable[[list[str]], list[str]]


def do(load: Callable[[Work], Answer]) -> None:
    """Load, time the work, and write the result."""
    work, started = Work.given(), time.perf_counter()
    answer = load(work)
    loaded, at_load = time.perf_counter() - started, memory("VmRSS")
    answer(work.lines[: min(len(work.lines), 4 * work.batch)])
    latencies: list[float] = []
    passes: list[float] = []
    while sum(passes) < LONG_ENOUGH:
        outputs: list[str] = []
        began = time.perf_counter()
        if work.batch == 1:
            for line in work.lines:
                asked = time.perf_counter()
                outputs += answer([line])
                latencies.append(time.perf_counter() - asked)
        else:
            outputs = answer(work.lines)
        passes.append(time.perf_counter() - began)
    result: dict[str, Any] = {
        "passes": passes,
        "lines_per_second": len(work.lines) / statistics.median(passes),
        "load_seconds": loaded,
        "memory_at_load": at_load,
        "peak_memory": memory("VmHWM"),
        "outputs": outputs,
    }
    if latencies:
        result["median_latency"] = statistics.median(latencies)
        result["latency_95"] = statistics.quantiles(latencies, n=20)[-1]
    Path(sys.argv[2]).write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


def memory(which: str) -> int:
    """What is resident now (VmRSS) or was at most (VmHWM), in bytes.

    Not getrusage's peak: that begins with what the parent had.
    """
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1024
    raise LookupError(which)
