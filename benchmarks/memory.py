"""Measure the memory of preparing a corpus, of sampling batches from it and of training on it.

    python benchmarks/memory.py --gigabytes 5 --write

Generates a corpus of pairs in a temporary folder, prepares it in one process, samples batches in
another and trains in a third, and measures the memory of each from outside. It must not grow with
the corpus.
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

from report import machine, table, write_results

WORDS, FRAGMENTS, LINES = 50_000, 100_000, 10_000
LIMIT, BUDGET, STEPS = 128, 4096, 200


def corpus(path: Path, size: int) -> int:
    """Write pairs of random fragments with Zipf-distributed words (Zipf 1935), one percent of them
    duplicates; return the number of lines."""
    random, written, lines = np.random.default_rng(1), 0, 0
    fragments = list(_fragments(random))
    with path.open("wb") as file:
        while written < size:
            indices = random.integers(FRAGMENTS, size=(LINES, 6)).tolist()
            block = [
                b"%b %b %b\t%b %b %b\n" % tuple(fragments[index] for index in six)
                for six in indices
            ]
            block[::100] = block[1::100]
            written += file.write(b"".join(block))
            lines += LINES
    return lines


def _fragments(random: np.random.Generator) -> Iterator[bytes]:
    letters = random.integers(ord("a"), ord("z") + 1, size=(WORDS, 12), dtype=np.uint8)
    lengths = random.integers(2, 12, size=WORDS)
    words = [bytes(row[:length]) for row, length in zip(letters, lengths, strict=True)]
    cumulative = np.cumsum(1 / np.arange(1, WORDS + 1))
    cumulative /= cumulative[-1]
    for size in random.integers(2, 8, size=FRAGMENTS):
        indices = np.searchsorted(cumulative, random.random(size))
        yield b" ".join(words[index] for index in indices.tolist())


def work(task: str, folder: Path, batches: int) -> dict[str, Any]:
    """Run one of the three tasks in this process."""
    if task == "train":
        return train(folder)
    from regard.config import validate
    from regard.data.batches.pairs import pair_batches
    from regard.data.config import DataSpec
    from regard.data.sampling.sampler import DataCursor
    from regard.data.store.prepare import prepare
    from regard.data.tokenizers.base import TokenizerSpec

    recipe = recipe_of(folder)
    data = validate(DataSpec, recipe["data"], "benchmark")
    tokenizer = TokenizerSpec.model_validate(recipe["tokenizer"])
    prepared = prepare(data, tokenizer, LIMIT)
    if task == "prepare":
        return {"rows": len(prepared.train), "tokens": sum(prepared.train.tokens)}
    stream = pair_batches(
        prepared.train, prepared.tokenizer, data.translation_directions, BUDGET, seed=1
    )
    start, tokens = time.perf_counter(), 0
    for _, (batch, _) in zip(range(batches), stream.iter_from(DataCursor()), strict=False):
        tokens += batch.num_targets
    seconds = (time.perf_counter() - start) / batches
    return {"batches": batches, "milliseconds per batch": round(1000 * seconds, 3)}


def recipe_of(folder: Path) -> dict[str, Any]:
    """Return the recipe on the corpus of the folder."""
    source = {"kind": "tsv", "path": str(folder / "pairs.tsv"), "languages": ["xx", "yy"]}
    return {
        "data": {"train": source, "prepared": str(folder / "prepared"), "directions": ["xx-yy"]},
        "tokenizer": {"vocabulary": 16_000},
        "model": {"kind": "encoder-decoder", "size": "tiny", "max_length": LIMIT},
        "training": {"steps": STEPS, "batch_tokens": BUDGET, "evaluation": {"metric": "loss"}},
    }


def train(folder: Path) -> dict[str, Any]:
    """Train a recipe and write its run folder."""
    from regard.training.recipe import make_recipe
    from regard.training.trainer import train as train_recipe

    train_recipe(make_recipe(recipe_of(folder), (), "benchmark"), folder / "run")
    return {"steps": STEPS}


def watch(task: str, folder: Path, batches: int) -> dict[str, Any]:
    """Run a task in a process and measure its memory in megabytes."""
    command = [sys.executable, __file__, "--work", task, str(folder), "--batches", str(batches)]
    start, peak = time.perf_counter(), {"RssAnon": 0, "RssFile": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            for key, value in _memory(process.pid):
                peak[key] = max(peak[key], value)
            time.sleep(0.05)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"{task} failed.")
    result: dict[str, Any] = json.loads(output)
    return {"seconds": round(time.perf_counter() - start, 1), **result, **peak}


def _memory(process: int) -> Iterator[tuple[str, int]]:
    try:
        status = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # the process has just ended
        return
    for line in status:
        key, _, value = line.partition(":")
        if key in ("RssAnon", "RssFile"):
            yield key, int(value.split()[0]) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--gigabytes", type=float, default=5.0, help="size of the corpus (default: 5)"
    )
    parser.add_argument(
        "--batches", type=int, default=3000, help="batches to sample (default: 3000)"
    )
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        import resource

        result = work(options.work[0], Path(options.work[1]), options.batches)
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = round(used.ru_utime + used.ru_stime, 1)
        print(json.dumps({**result, "CPU seconds": seconds, "peak RSS": used.ru_maxrss // 1024}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        lines = corpus(folder / "pairs.tsv", int(options.gigabytes * 1e9))
        size = (folder / "pairs.tsv").stat().st_size
        print(f"{size / 1e9:.2f} GB, {lines:,} pairs in {time.perf_counter() - start:.0f} s")
        results: dict[str, Any] = {"bytes": size, "lines": lines, "cores": os.cpu_count()}
        for task in ("prepare", "batches", "train"):
            results[task] = watch(task, folder, options.batches)
            print(task, json.dumps(results[task]))
        rate = size / 1e6 / results["prepare"]["seconds"]
        results["prepare"]["MB/s"] = round(rate, 2)
        print(f"{rate:.2f} MB/s")
    results["machine"] = machine()
    section = describe(results)
    print(section)
    if options.write:
        write_results("memory", results, section)


def describe(results: dict[str, Any]) -> str:
    """Return the section of the page."""
    names = {
        "prepare": "prepare",
        "batches": "sample batches",
        "train": f"train, {STEPS} steps",
    }
    rows = [
        [
            name,
            f"{results[task]['peak RSS']:,} MB",
            f"{results[task]['RssAnon']:,} MB",
            f"{results[task]['RssFile']:,} MB",
            f"{results[task]['seconds']:,.0f} s",
        ]
        for task, name in names.items()
    ]
    head = ["task", "peak resident", "anonymous", "file-backed", "time"]
    return f"""## Memory for a corpus of {results["bytes"] / 1e9:.1f} GB

{results["lines"]:,} pairs of random, Zipf-distributed words in one TSV file; the tokenizer has a
vocabulary of 16,000, the model is `tiny`. Resident memory of each process, measured from outside.

{table(head, rows)}
"""


if __name__ == "__main__":
    main()
