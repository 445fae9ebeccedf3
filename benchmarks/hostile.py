"""Hostile input: damaged files of every format and odd command lines must end in a sentence.

    python benchmarks/hostile.py                       10,000 cases; writes robustness.md
    python benchmarks/hostile.py --cases 500 --seed 7  other cases; writes nothing
    python benchmarks/hostile.py --case 1234           run one again and show its output

Each case runs the real command line in a forked child with limits of processor time, memory and
output. It may succeed, or end with one sentence (exit code 1) or a usage message (2). A traceback,
a signal, a hang, a runaway allocation or another message is a defect.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hostile_input import cases, server
from hostile_input.cases import Case
from hostile_input.seeds import Seed, seeds
from report import machine, table, write_results

CASES, SEED = 10_000, 0
DEFECTS = {
    "traceback": "tracebacks",
    "signal": "signals",
    "hang": "hangs",
    "memory": "runaway allocations",
    "message": "other messages",
}


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    totals: Counter[str] = Counter()
    for counts in result["formats"].values():
        totals.update(counts)
    rows = [_row(name, counts) for name, counts in [*result["formats"].items(), ("all", totals)]]
    defects = ", ".join(f"{totals[kind]} {noun}" for kind, noun in DEFECTS.items())
    sentences = [
        f"{result['cases']:,} damaged inputs over {len(result['formats'])} formats (seed "
        f"{result['seed']}), each in a child with {server.CPU_SECONDS} s of processor time and "
        f"{server.MEMORY >> 30} GiB of memory: {defects}.",
        "Bytes, JSON values, lines, tensor headers, Parquet schemas, options and standard input "
        "are damaged. In four of five cases the checksum of a damaged file of a run folder is "
        "corrected, so that the damage is read. Learning curves are drawn in the cases of "
        "metrics.jsonl only.",
        f"The slowest case took {result['slowest_seconds']:.1f} s, and the largest child had "
        f"{result['largest_megabytes']:,.0f} MB. `python benchmarks/hostile.py --case N` runs one "
        f"again.",
    ]
    head = ["Format", "succeeded", "refused with a sentence", "usage message", "defects"]
    return "\n\n".join(["## Hostile input", sentences[0], table(head, rows), *sentences[1:]])


def _row(name: str, counts: Mapping[str, int]) -> list[str]:
    good = [f"{counts.get(kind, 0):,}" for kind in server.GOOD]
    return [name, *good, str(sum(counts.get(kind, 0) for kind in DEFECTS))]


def run_all(todo: Iterator[Case], jobs: int) -> Iterator[tuple[Case, server.Outcome]]:
    """Run cases, a few at a time, and yield each with its outcome."""
    running: dict[int, Case] = {}
    begun: dict[int, float] = {}
    exhausted = False
    while running or not exhausted:
        while len(running) < jobs and not exhausted:
            case = next(todo, None)
            if case is None:
                exhausted = True
                break
            pid = server.start(
                case.argv, case.folder, case.stdin, draw=case.format == "metrics.jsonl"
            )
            running[pid], begun[pid] = case, time.monotonic()
        if running:
            pid, status, megabytes = server.wait(set(running), begun)
            case = running.pop(pid)
            outcome = server.judge(case.folder, status, time.monotonic() - begun[pid], megabytes)
            yield case, outcome
            shutil.rmtree(case.folder, ignore_errors=True)


def write_seeds(home: Path) -> list[Seed]:
    """Write the seeds, unless they exist, in another process: this one must have no threads."""
    if (home / "seeds.json").exists():
        return seeds(home)
    command = [sys.executable, "-m", "hostile_input.seeds", str(home)]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return seeds(home)


def check_seeds(all_seeds: list[Seed], home: Path, work: Path, jobs: int) -> None:
    """Fail where a command does not succeed with its unchanged files."""
    commands = [(seed, command) for seed in all_seeds for command in seed.commands]
    todo = (cases.unchanged(n, seed, c, home, work) for n, (seed, c) in enumerate(commands))
    for case, outcome in run_all(todo, jobs):
        if outcome.kind != "done":
            raise SystemExit(f"{case.description}: {case.argv}: {outcome}")


def campaign(
    numbers: range,
    seed: int,
    jobs: int,
    home: Path | None = None,
    keep: Path | None = None,
    check: bool = True,
) -> dict[str, Any]:
    """Run the cases of some numbers; print defects as they are found."""
    formats: dict[str, Counter[str]] = defaultdict(Counter)
    defects, slowest, largest = [], 0.0, 0.0
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        home, work = home or Path(name, "seeds"), Path(name, "work")
        work.mkdir()
        all_seeds = write_seeds(home)
        server.preload()
        if check:
            check_seeds(all_seeds, home, work, jobs)
        todo = (cases.make(number, seed, all_seeds, home, work) for number in numbers)
        for done, (case, outcome) in enumerate(run_all(todo, jobs), start=1):
            formats[case.format][outcome.kind] += 1
            slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.megabytes)
            if outcome.kind in DEFECTS:
                what = f"{case.number} {outcome.kind}: {case.description}: {ascii(case.argv)[:300]}"
                defects.append(f"{what}: {outcome.detail}")
                print(defects[-1][:700], flush=True)
            if done % 1000 == 0:
                print(f"{done:,} cases, {len(defects)} defects", flush=True)
            if keep is not None:
                shutil.copytree(case.folder, keep, dirs_exist_ok=True)
                print((case.folder / ".stderr").read_text(errors="replace"))
                print(case.description, ascii(case.argv)[:500], outcome)
    return {
        "cases": len(numbers),
        "seed": seed,
        "formats": {name: dict(sorted(counts.items())) for name, counts in sorted(formats.items())},
        "defects": defects,
        "slowest_seconds": round(slowest, 1),
        "largest_megabytes": round(largest),
        "machine": machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1)))
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--seeds", type=Path, help="folder of the valid inputs (default: a new one)"
    )
    parser.add_argument(
        "--case", type=int, help="run one case; its folder is kept in ./hostile-case"
    )
    options = parser.parse_args()
    if options.case is not None:
        numbers = range(options.case, options.case + 1)
        campaign(numbers, options.seed, 1, options.seeds, Path("hostile-case"), check=False)
        return
    result = campaign(
        range(options.first, options.first + options.cases),
        options.seed,
        options.jobs,
        options.seeds,
    )
    print(result["formats"])
    if (options.cases, options.seed, options.first) == (CASES, SEED, 0):
        write_results("hostile", result, describe(result), page="robustness")
    if result["defects"]:
        raise SystemExit(f"{len(result['defects'])} defects")


if __name__ == "__main__":
    main()
