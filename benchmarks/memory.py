"""How much memory does it take to prepare a corpus, and to draw batches from it?

    python benchmarks/memory.py --gigabytes 5

Writes a corpus of pairs into a temporary folder, prepares it in one process and draws batches in
another, and watches both from outside. Neither should take more memory for more text.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

WORDS, FRAGMENTS, LINES = 50_000, 100_000, 10_000
LIMIT, BUDGET = 128, 4096


def corpus(path: Path, size: int) -> int:
    """Pairs of random fragments, whose words are as common as words are (Zipf 1935); one in a
    hundred twice. Gives the number of lines."""
    random, written, lines = np.random.default_rng(1), 0, 0
    fragments = list(_fragments(random))
    with path.open("wb") as file:
        while written < size:
            picked = random.integers(FRAGMENTS, size=(LINES, 6)).tolist()
            block = [
                b"%b %b %b\t%b %b %b\n" % tuple(fragments[each] for each in six) for six in picked
            ]
            block[::100] = block[1::100]
            written += file.write(b"".join(block))
            lines += LINES
    return lines


def _fragments(random: np.random.Generator) -> Iterator[bytes]:
    letters = random.integers(ord("a"), ord("z") + 1, size=(WORDS, 12), dtype=np.uint8)
    lengths = random.integers(2, 12, size=WORDS)
    words = [bytes(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    odds = np.cumsum(1 / np.arange(1, WORDS + 1))
    odds /= odds[-1]
    for size in random.integers(2, 8, size=FRAGMENTS):
        chosen = np.searchsorted(odds, random.random(size))
        yield b" ".join(words[each] for each in chosen.tolist())


def work(task: str, folder: Path, batches: int) -> dict[str, Any]:
    """One of the two tasks, in a process of its own."""
    from regard.config import validate
    from regard.data.batching import pair_batches
    from regard.data.corpus import DataSpec
    from regard.data.prepare import prepare
    from regard.data.sampling import Position
    from regard.data.tokenizers import TokenizerSpec

    train = {"kind": "tsv", "path": str(folder / "pairs.tsv"), "languages": ["xx", "yy"]}
    given = {"train": train, "prepared": str(folder / "prepared")}
    data = validate(DataSpec, given, "benchmark")
    prepared = prepare(data, TokenizerSpec.model_validate({"vocabulary": 16_000}), LIMIT)
    if task == "prepare":
        return {"rows": len(prepared.train), "tokens": sum(prepared.train.tokens)}
    stream = pair_batches(prepared.train, prepared.tokenizer, data.ways, BUDGET, seed=1)
    began, tokens = time.perf_counter(), 0
    for _, (batch, _) in zip(range(batches), stream.since(Position()), strict=False):
        tokens += batch.tokens
    each = (time.perf_counter() - began) / batches
    return {"batches": batches, "milliseconds a batch": round(1000 * each, 3)}


def watch(task: str, folder: Path, batches: int) -> dict[str, Any]:
    """Run a task and look at its memory from outside, in megabytes."""
    command = [sys.executable, __file__, "--work", task, str(folder), "--batches", str(batches)]
    began, peak = time.perf_counter(), {"RssAnon": 0, "RssFile": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for key, value in _memory(process.pid):
                peak[key] = max(peak[key], value)
            time.sleep(0.05)
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{task} failed.")
    found: dict[str, Any] = json.loads(answer)
    return {"seconds": round(time.perf_counter() - began, 1), **found, **peak}


def _memory(process: int) -> Iterator[tuple[str, int]]:
    try:
        status = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return
    for line in status:
        key, _, value = line.partition(":")
        if key in ("RssAnon", "RssFile"):
            yield key, int(value.split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=5.0, help="of text to prepare")
    parser.add_argument("--batches", type=int, default=3000, help="to draw afterwards")
    parser.add_argument("--output", type=Path, default=Path("memory.json"))
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        import resource

        result = work(given.work[0], Path(given.work[1]), given.batches)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = round(used.ru_utime + used.ru_stime, 1)
        print(json.dumps({**result, "CPU seconds": seconds, "peak RSS": used.ru_maxrss // 1024}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.perf_counter()
        lines = corpus(folder / "pairs.tsv", int(given.gigabytes * 1e9))
        size = (folder / "pairs.tsv").stat().st_size
        print(f"{size / 1e9:.2f} GB, {lines:,} pairs in {time.perf_counter() - began:.0f} s")
        results: dict[str, Any] = {"bytes": size, "lines": lines, "cores": os.cpu_count()}
        for task in ("prepare", "batches"):
            results[task] = watch(task, folder, given.batches)
            print(task, json.dumps(results[task]))
        rate = size / 1e6 / results["prepare"]["seconds"]
        results["prepare"]["MB/s"] = round(rate, 2)
        print(f"{rate:.2f} MB/s")
    given.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
