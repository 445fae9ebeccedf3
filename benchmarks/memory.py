"""How much memory does it take to prepare a corpus, to draw batches from it and to train on it?

    python benchmarks/memory.py --gigabytes 5 --write

Writes a corpus of pairs into a temporary folder, prepares it in one process, draws batches in
another and trains in a third, and watches each from outside. None should take more memory for more
text.
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

from report import keep, machine, table

WORDS, FRAGMENTS, LINES = 50_000, 100_000, 10_000
LIMIT, BUDGET, STEPS = 128, 4096, 200


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
    """One of the three tasks, in a process of its own."""
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
    began, tokens = time.perf_counter(), 0
    for _, (batch, _) in zip(range(batches), stream.iter_from(DataCursor()), strict=False):
        tokens += batch.num_targets
    each = (time.perf_counter() - began) / batches
    return {"batches": batches, "milliseconds a batch": round(1000 * each, 3)}


def recipe_of(folder: Path) -> dict[str, Any]:
    source = {"kind": "tsv", "path": str(folder / "pairs.tsv"), "languages": ["xx", "yy"]}
    return {
        "data": {"train": source, "prepared": str(folder / "prepared"), "directions": ["xx-yy"]},
        "tokenizer": {"vocabulary": 16_000},
        "model": {"kind": "encoder-decoder", "size": "tiny", "max_length": LIMIT},
        "training": {"steps": STEPS, "batch_tokens": BUDGET, "evaluation": {"metric": "loss"}},
    }


def train(folder: Path) -> dict[str, Any]:
    """A real run, from the recipe to the run folder."""
    from regard.training.recipe import make_recipe
    from regard.training.trainer import train as train_recipe

    train_recipe(make_recipe(recipe_of(folder), (), "benchmark"), folder / "run")
    return {"steps": STEPS}


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
    parser.add_argument("--write", action="store_true", help="into docs/")
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
        for task in ("prepare", "batches", "train"):
            results[task] = watch(task, folder, given.batches)
            print(task, json.dumps(results[task]))
        rate = size / 1e6 / results["prepare"]["seconds"]
        results["prepare"]["MB/s"] = round(rate, 2)
        print(f"{rate:.2f} MB/s")
    results["machine"] = machine()
    section = _section(results)
    print(section)
    if given.write:
        keep("memory", results, section)


def _section(results: dict[str, Any]) -> str:
    names = {
        "prepare": "preparing",
        "batches": "drawing batches",
        "train": f"training, {STEPS} steps",
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
    head = ["task", "peak resident", "of its own", "of files", "time"]
    return f"""## Memory for a corpus of {results["bytes"] / 1e9:.1f} GB

{results["lines"]:,} pairs of made-up words, as common as words are, in one TSV file; the tokeniser
has 16,000 pieces, the model is `tiny`. Resident memory of each process, watched from outside.

{table(head, rows)}
"""


if __name__ == "__main__":
    main()
