"""Decode from four threads with changing thread counts, forks in between, under sanitizers.

    python benchmarks/soak.py --minutes 10 --write    ten minutes with each sanitizer, at once
    python benchmarks/soak.py --seconds 3 --sanitizer none

Each Python thread decodes sentences with a small encoder-decoder or language model through the
engine, greedily or by beam search, in float32 or with 8-bit weights, with 1 to 4 threads, and
compares the tokens with those of one thread. Meanwhile the main thread forks processes that do the
same. A sanitizer's report, another result or a process that does not end is an error.
"""

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report import machine, table, write_results
from sanitizers import SANITIZERS, build

CALLERS, MAX_THREADS, ROWS = 4, 4, 3
SECONDS_BETWEEN_FORKS, FORK_TIMEOUT = 1.0, 300
VOCABULARY, LENGTH, END = 60, 24, 3
SIZES = {"dim": 32, "heads": 4, "kv_heads": 2, "ffn_dim": 48, "layers": 2, "dropout": 0.0}

Decode = Callable[[], list[Any]]


def decoders() -> dict[str, Decode]:
    """Return functions that decode the same sentences each time they are called."""
    import numpy as np
    import torch

    from regard.config import validate
    from regard.decoding.beam import beam_search
    from regard.engine.select import pack_module
    from regard.models.base import ModelSpec

    torch.manual_seed(1)
    sources = np.random.default_rng(1).integers(4, VOCABULARY, (ROWS, 7))
    source_mask = np.arange(7) < np.array([[7], [4], [1]])
    first, limits = np.full(ROWS, 2), [12, 5, 9]
    functions: dict[str, Decode] = {}
    for kind in ("encoder-decoder", "language-model"):
        spec = validate(ModelSpec, {"kind": kind, **SIZES, "max_length": LENGTH}, "soak")
        model = spec.build(VOCABULARY).eval()
        for bits in (32, 8):
            fast = pack_module(model, LENGTH, bits)
            arguments = (sources, source_mask) if kind == "encoder-decoder" else ()

            def greedily(fast: Any = fast, arguments: Any = arguments) -> list[Any]:
                return list(fast.greedy(first, fast.start(*arguments), END, limits))

            def by_beam(fast: Any = fast, arguments: Any = arguments) -> list[Any]:
                return list(beam_search(fast, fast.start(*arguments), first, END, limits, 3))

            functions[f"{kind}, {bits} bits, greedy"] = greedily
            functions[f"{kind}, {bits} bits, beam"] = by_beam
    return functions


def work(seconds: float) -> dict[str, Any]:
    """Decode in this process for some time; return the counts."""
    import torch

    from regard.engine.library import library

    if library() is None:
        raise SystemExit("soak: the compiled library cannot be used here.")
    torch.set_num_threads(1)
    functions = decoders()
    expected = {name: decode() for name, decode in functions.items()}
    calls, wrong, stop = [0] * CALLERS, [], threading.Event()

    def call(caller: int) -> None:
        choice = random.Random(caller)
        while not stop.is_set():
            name = choice.choice(list(functions))
            torch.set_num_threads(choice.randint(1, MAX_THREADS))  # of this Python thread
            if functions[name]() != expected[name]:
                wrong.append(name)
            calls[caller] += 1

    callers = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
    for caller in callers:
        caller.start()
    forks, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline and not wrong:
        time.sleep(min(SECONDS_BETWEEN_FORKS, seconds / 3))
        _fork_and_decode(functions, expected, seed=forks)
        forks += 1
    stop.set()
    for caller in callers:
        caller.join()
    if wrong:
        raise SystemExit(f"soak: another result than with one thread: {wrong[0]}.")
    return {"seconds": round(seconds), "calls": sum(calls), "forks": forks}


def _fork_and_decode(
    functions: Mapping[str, Decode], expected: Mapping[str, list[Any]], seed: int
) -> None:
    """Decode in a forked process and wait for it; another result than `expected` is an error."""
    import torch

    child = os.fork()
    if child == 0:
        _use_new_stacks()
        choice = random.Random(seed)
        names = choice.sample(list(functions), 3)
        torch.set_num_threads(choice.randint(2, MAX_THREADS))
        same = all(functions[name]() == expected[name] for name in names)
        os._exit(0 if same else 3)
    deadline = time.monotonic() + FORK_TIMEOUT
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise SystemExit(f"soak: a forked process did not end within {FORK_TIMEOUT} s.")
        time.sleep(0.01)
    if status:
        raise SystemExit(f"soak: a forked process ended with status {status}.")


def _use_new_stacks() -> None:
    """Give new threads of this process another stack size than those of its parent.

    ThreadSanitizer refuses a thread whose id (the address of its stack) was one of the parent's.
    """
    libc = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(64)  # a pthread_attr_t of glibc has 56 bytes
    libc.pthread_attr_init(attributes)
    libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(16 << 20))
    libc.pthread_setattr_default_np(attributes)


def soak(name: str, seconds: float) -> dict[str, Any]:
    """Run `work` in a process with a sanitizer's library, or without; return the counts."""
    environment: Mapping[str, str] = os.environ
    if name != "none":
        if not (SANITIZERS[name].folder / "driver").exists():
            build(SANITIZERS[name])
        environment = SANITIZERS[name].environment()
    command = [sys.executable, str(Path(__file__)), "--work", "--seconds", str(seconds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    reports = done.stderr.count("ERROR: AddressSanitizer") + done.stderr.count("runtime error:")
    reports += done.stderr.count("WARNING: ThreadSanitizer")
    if done.returncode or reports:
        raise SystemExit(f"soak: {name}: exit code {done.returncode}\n{done.stderr[-8000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**result, "reports": reports}


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    names = {"address": "address and undefined behavior", "thread": "thread", "none": "none"}
    rows = [
        [
            names[name],
            f"{run['seconds'] / 60:.0f} min",
            f"{run['calls']:,}",
            f"{run['forks']:,}",
            str(run["reports"]),
        ]
        for name, run in result["runs"].items()
    ]
    host = result["machine"]
    return f"""## Soak

{CALLERS} Python threads decode with a small encoder-decoder and a small language model (grouped
keys) through the compiled engine, greedily and by beam search, in float32 and with 8-bit weights,
each call with 1 to {MAX_THREADS} threads. In between the process forks, and the forked process
decodes too. All tokens are compared with those of one thread; a sanitizer's report, another token
or a process that does not end is a failure.

{table(["Sanitizer", "Time", "Batches decoded", "Forks", "Reports"], rows)}

{host["cpu"]}, torch {host["torch"]}, Python {host["python"]}; all runs at the same time.
`make sanitize` runs the tests of the compiled functions and `tests/native/driver.cpp` under the
same sanitizers; the driver also lets every allocation fail once.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, help="instead of minutes")
    parser.add_argument("--sanitizer", choices=[*SANITIZERS, "none"], action="append")
    parser.add_argument("--write", action="store_true", help="write the page of the results")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seconds = options.seconds or 60 * options.minutes
    if options.work:
        print(json.dumps(work(seconds)))
        return
    names = options.sanitizer or list(SANITIZERS)
    with ThreadPoolExecutor(len(names)) as pool:  # more processes than cores: more interruptions
        runs = dict(zip(names, pool.map(lambda name: soak(name, seconds), names), strict=True))
    result = {"machine": machine(), "runs": runs}
    print(describe(result))
    if options.write:
        write_results("soak", result, describe(result), page="robustness")


if __name__ == "__main__":
    main()
