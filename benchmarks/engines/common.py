"""The protocol of the engines: settings, timing and results.

An engine is started as `python ENGINE.py WORK.json OUT.json`, loads its model, decodes a few lines
as a warm-up and then all lines with timing, repeatedly for some seconds.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_TOKENS = 60  # of a translation, in every engine: captions have half as many


@dataclass(frozen=True)
class Work:
    """Lines to translate, prompts to continue, or texts to encode."""

    model: str  # a folder in the engine's own format
    lines: list[str]
    beam: int = 1
    batch: int = 1  # maximum batch size; 1: line by line
    threads: int = 1  # per worker
    workers: int = 1
    bits: int = 32
    early_stopping: bool = True  # beam search ends after `beam` finished hypotheses
    tokens: int = 0  # number of tokens of a continuation; 0: translate
    seconds: float = 5  # shorter work is repeated

    @classmethod
    def from_arguments(cls) -> "Work":
        return cls(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


Decode = Callable[[list[str]], list[Any]]  # texts, or vectors, in the order of the lines


def run(load: Callable[[Work], Decode], details: Callable[[], dict[str, Any]] = dict) -> None:
    """Load a model, measure the decoding, and write the result with the details of the engine."""
    work, started = Work.from_arguments(), time.perf_counter()
    decode = load(work)
    loaded, at_load = time.perf_counter() - started, memory("VmRSS")
    decode(work.lines[: min(len(work.lines), 4 * work.batch)])
    latencies: list[float] = []
    passes: list[float] = []
    while not passes or sum(passes) < work.seconds:
        outputs: list[Any] = []
        start = time.perf_counter()
        if work.batch == 1:
            for line in work.lines:
                begin = time.perf_counter()
                outputs += decode([line])
                latencies.append(time.perf_counter() - begin)
        else:
            outputs = decode(work.lines)
        passes.append(time.perf_counter() - start)
    result: dict[str, Any] = {
        "passes": passes,
        "lines_per_second": len(work.lines) / statistics.median(passes),
        "load_seconds": loaded,
        "memory_at_load": at_load,
        "memory_in_use": memory("VmRSS"),  # Regard packs its matrices with the first lines
        "peak_memory": memory("VmHWM"),
        "with_torch": "torch" in sys.modules,
        "outputs": [_plain(output) for output in outputs],
        **details(),
    }
    if len(latencies) > 1:
        result["median_latency"] = statistics.median(latencies)
        result["latency_95"] = statistics.quantiles(latencies, n=20)[-1]
    Path(sys.argv[2]).write_text(json.dumps(result, ensure_ascii=False), encoding="utf-8")


def _plain(output: Any) -> Any:
    """Return a text, or the numbers of a vector."""
    return output if isinstance(output, str) else output.tolist()


def memory(which: str) -> int:
    """Return resident memory (VmRSS) or its peak (VmHWM) in bytes.

    The peak of getrusage would include the memory of the parent process.
    """
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(which):
            return int(line.split()[1]) * 1024
    raise LookupError(which)
