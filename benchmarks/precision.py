"""Compare training in bfloat16 with training in float32: paired runs of the same seeds.

    python benchmarks/precision.py --seeds 3 --write

Each run trains recipes/multi30k-fr-en.yaml for --steps updates in its own process, the precisions
in turn. Both see the same batches in the same order. Run it on an idle machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from regard.hardware import bfloat16_speedup
from regard.lab.intervals import difference
from report import machine, table, write_results

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-fr-en.yaml"
PRECISIONS = ("float32", "bfloat16")
SCORES = (30, 40)  # dev BLEU to whose first time the precisions are compared
INTRODUCTION = """## Training in bfloat16 on a CPU

Multi30k French → English, `recipes/multi30k-fr-en.yaml` for {steps:,} updates with {seeds} seeds,
the precisions in turn on the same batches. Products of matrices of a small model are {speedup:.1f}
times as fast in bfloat16 ({cpu}). The time to a score is that of the updates until the first of the
evaluations, every {every} updates, that reaches it. The spread of float32 is the standard deviation
over its seeds: {spread:.4f} of the dev loss. A difference is bfloat16 minus float32 of the same
seed, with its 95 % interval."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--every", type=int, default=60, help="updates between evaluations")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    runs = [
        _run(precision, seed, options)
        for seed in range(1, options.seeds + 1)
        for precision in (PRECISIONS if seed % 2 else PRECISIONS[::-1])
    ]
    result = {
        "machine": machine(),
        "speedup": bfloat16_speedup(),
        "steps": options.steps,
        "every": options.every,
        "runs": runs,
    }
    section = describe(result)
    print(section)
    if options.write:
        write_results("precision", result, section)


def _run(precision: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        settings = {
            "precision": precision,
            "seed": seed,
            "steps": options.steps,
            "budget": "null",
            "evaluation.every": options.every,
        }
        overrides = [f"training.{key}={value}" for key, value in settings.items()]
        command = [sys.executable, "-m", "regard", "train", str(RECIPE), *overrides]
        done = subprocess.run([*command, "--run", str(run)], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{precision}, seed {seed} failed:\n{done.stderr[-2000:]}")
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    summary = _summary([json.loads(line) for line in lines])
    print(f"{precision}, seed {seed}: {summary}", flush=True)
    return {"precision": precision, "seed": seed, **summary}


def _summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last dev loss and BLEU, and the times of updates alone, without evaluations."""
    evaluated = [event for event in events if "scores" in event]
    evaluating, times = 0.0, {}
    for event in evaluated:
        for score in SCORES:
            if event["scores"]["bleu"] >= score:
                times.setdefault(str(score), event["seconds"] - evaluating)
        evaluating += event["duration"]
    last = evaluated[-1]
    return {
        "dev_loss": last["scores"]["loss"],
        "dev_bleu": max(event["scores"]["bleu"] for event in evaluated),
        "seconds": last["seconds"] - (evaluating - last["duration"]),
        "seconds_to": times,
    }


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    by_precision = {
        precision: [run for run in result["runs"] if run["precision"] == precision]
        for precision in PRECISIONS
    }
    seeds = len(by_precision["float32"])
    losses = [run["dev_loss"] for run in by_precision["float32"]]
    introduction = INTRODUCTION.format(
        steps=result["steps"],
        every=result["every"],
        seeds=seeds,
        speedup=result["speedup"],
        cpu=result["machine"]["cpu"],
        spread=statistics.stdev(losses) if seeds > 1 else float("nan"),
    )
    rows = [_row("dev loss", by_precision, lambda run: run["dev_loss"], 4)]
    rows.append(_row("dev BLEU (greedy), best", by_precision, lambda run: run["dev_bleu"], 1))
    rows.append(_row("seconds of all updates", by_precision, lambda run: run["seconds"], 0))
    for score in map(str, SCORES):
        if all(score in run["seconds_to"] for run in result["runs"]):
            name = f"seconds to dev BLEU {score}"
            rows.append(_row(name, by_precision, partial(_seconds_to, score), 0))
    return f"{introduction}\n\n{table(['', *PRECISIONS, 'difference', 'ratio'], rows)}\n"


def _seconds_to(score: str, run: dict[str, Any]) -> float:
    seconds: float = run["seconds_to"][score]
    return seconds


def _row(name: str, runs: dict[str, list[dict[str, Any]]], value: Any, digits: int) -> list[str]:
    """Return a row of the table: the means, the paired difference and the ratio of the means."""
    first, second = ([value(run) for run in runs[precision]] for precision in PRECISIONS)
    paired = difference(second, first)
    means = [statistics.fmean(values) for values in (first, second)]
    return [
        name,
        *(f"{each:,.{digits}f}" for each in means),
        f"{paired.mean:+,.{digits}f} ± {(paired.high - paired.low) / 2:,.{digits}f}",
        f"{means[1] / means[0]:.2f}",
    ]


if __name__ == "__main__":
    main()
