"""Record small seeded training runs, or check that they still compute the same, bit by bit.

    python benchmarks/reference_runs.py record benchmarks/reference/runs.json
    python benchmarks/reference_runs.py compare benchmarks/reference/runs.json --only demo

A recording has, for each run of `reference/settings.py`, the loss of every step, the scores on the
dev data, a hash of the final weights that does not depend on parameter names, and the outputs of
the trained model. Each run has its own process, with one thread unless its settings name more.
`compare` prints one line per run and exits with 1 if any differs.

Kernels differ between processors and versions of torch, so a recording is valid for the processor
and the version of torch that are named in it. All runs take about three minutes on one core.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
import yaml
from safetensors.torch import load_file

import regard
from reference.corpus import write_corpus
from reference.outputs import hash_of, hexadecimal, outputs
from reference.settings import RUNS, Run
from regard import run_folder

NOTE = "Comparable only on the same kind of processor with the same version of torch."

Record = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path, help="a JSON file: the recording")
    parser.add_argument(
        "--digest", action="store_true", help="record a hash of each output in its place: smaller"
    )
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS), metavar="NAME")
    options = parser.parse_args()
    if options.action == "record":
        record(options.file, options.only, options.digest)
    elif not compare(json.loads(options.file.read_text(encoding="utf-8")), options.only):
        sys.exit(1)


def record(file: Path, names: list[str], digest: bool) -> None:
    recorded = {}
    for name, result, seconds in results(names):
        if result is None:
            sys.exit(f"{name}: failed; nothing is recorded")
        recorded[name] = {**result, "outputs": digests(result["outputs"])} if digest else result
        print(f"{name}: {len(result['losses'])} steps, {seconds:.1f} s", flush=True)
    content = {"note": NOTE, **environment(), "runs": recorded}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_to_json(content), encoding="utf-8")


def _to_json(content: Mapping[str, Any]) -> str:
    """Write one line per run, so that `diff` of two recordings shows which runs differ."""
    head = json.dumps({**content, "runs": None}, indent=1).removesuffix("null\n}")
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in content["runs"].items()]
    return head + "{\n" + ",\n".join(lines) + "\n}}\n"


def compare(recording: Mapping[str, Any], names: list[str]) -> bool:
    """Print how each run differs from the recording; return whether none does."""
    now = environment()
    for key in ("processor", "torch"):
        if recording[key] != now[key]:
            print(f"{key}: recorded on {recording[key]}, this is {now[key]}; numbers may differ")
    same = True
    for name, result, seconds in results(names):
        if result is None:
            verdict = "failed"
        elif name not in recording["runs"]:
            verdict = "not in the recording"
        else:
            verdict = difference(recording["runs"][name], result)
        same = same and not verdict
        print(f"{name}: {verdict or 'identical'} ({seconds:.1f} s)", flush=True)
    return same


def difference(before: Record, after: Record) -> str:
    """Describe the first difference between two records of one run; empty if there is none."""
    if before["losses"] != after["losses"]:
        pairs = zip(before["losses"], after["losses"], strict=False)
        steps = [step for step, (one, other) in enumerate(pairs, start=1) if one != other]
        first = steps[0] if steps else min(map(len, (before["losses"], after["losses"]))) + 1
        return f"differs from step {first}"
    # Compared by value: a metric may be renamed, and others may be added.
    lost = Counter(before["scores"].values()) - Counter(after["scores"].values())
    if lost:
        return f"differs in {', '.join(k for k, v in before['scores'].items() if v in lost)}"
    if before["weights"] != after["weights"]:
        return "differs in its final weights"
    return _first_difference(before["outputs"], after["outputs"], "outputs")


def _first_difference(before: Any, after: Any, place: str) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [*before, *(key for key in after if key not in before)]
        inside = (_first_difference(before.get(k), after.get(k), f"{place}: {k}") for k in keys)
        return next(filter(None, inside), "")
    same = before in (after, digests(after))
    return "" if same else f"differs in {place}"


def digests(content: Any) -> Any:
    """Replace every value of nested mappings by its hash."""
    if isinstance(content, dict):
        return {key: digests(value) for key, value in content.items()}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def results(names: list[str]) -> Iterator[tuple[str, Record | None, float]]:
    """Train the named runs, and those they need, each in its own process; yield the named ones.

    Each with its record, None if it failed, and the seconds that it took.
    """
    context = multiprocessing.get_context("fork")
    _import_all()
    with tempfile.TemporaryDirectory(prefix="reference-runs-") as work:
        write_corpus(Path(work))
        for name in with_needs(names):
            began = time.perf_counter()
            process = context.Process(target=run_one, args=(name, RUNS[name], Path(work)))
            process.start()
            process.join()
            if name in names:
                file = Path(work) / f"{name}.json"
                done = process.exitcode == 0
                result = json.loads(file.read_text(encoding="utf-8")) if done else None
                yield name, result, time.perf_counter() - began


def _import_all() -> None:
    """Import what every run needs before forking: importing takes longer than most runs."""
    import matplotlib.backends.backend_svg  # noqa: F401

    _ = regard.train, regard.load
    with torch.device("meta"):
        torch.nn.Embedding(2, 2)


def with_needs(names: list[str]) -> list[str]:
    """Return the names in the order of RUNS, with the runs that they need."""
    needed = {other for name in names for other in (name, *RUNS[name].needs)}
    return [name for name in RUNS if name in needed]


def run_one(name: str, run: Run, work: Path) -> None:
    """Train or import a run in the working folder and write its record there."""
    os.chdir(work)
    torch.set_num_threads(run.threads)
    folder = Path("runs") / name
    if run.imported is not None:
        _command("import", run.imported, "--run", str(folder))
    else:
        recipe = Path(f"{name}.yaml")
        recipe.write_text(yaml.safe_dump(run.recipe), encoding="utf-8")
        regard.train(regard.read_recipe(recipe), folder)
    if run.resume:
        _command("resume", str(folder), *run.resume)
    torch.set_num_threads(1)
    result = {**_trained(folder), "outputs": outputs(name, folder, Path("runs"))}
    Path(f"{name}.json").write_text(json.dumps(result), encoding="utf-8")


def _command(*arguments: str) -> None:
    command = [sys.executable, "-m", "regard", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _trained(folder: Path) -> Record:
    """Read losses, scores and weights from a run folder."""
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.exists() else []
    events = [json.loads(line) for line in lines]
    evaluations = [event for event in events if "scores" in event]
    scores = {
        f"{name} at step {event['step']}": hexadecimal(score)
        for event in evaluations
        for name, score in event["scores"].items()
    }
    tensors = load_file(run_folder.path_of(folder, run_folder.WEIGHTS)).values()
    weights = "".join(sorted(map(hash_of, tensors)))
    return {
        "losses": [hexadecimal(event["loss"]) for event in events if "scores" not in event],
        "scores": scores,
        "weights": hashlib.sha256(weights.encode()).hexdigest(),
    }


def environment() -> dict[str, str]:
    return {
        "processor": _processor(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _processor() -> str:
    """Return the processor's name and family, and the instruction set that torch uses."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    values = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    facts = {key.strip(): value.strip() for key, value in values.items()}
    name = facts.get("model name") or platform.processor()
    family = f"family {facts.get('cpu family')}, model {facts.get('model')}"
    return f"{name} ({family}), {torch.backends.cpu.get_cpu_capability()}"


def _commit() -> str:
    """Return the commit of the library, with "-dirty" if its files are changed."""
    package = str(Path(str(regard.__file__)).parent)
    git = ["git", "-C", package, "describe", "--always", "--dirty", "--abbrev=12"]
    output = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    return output.strip() or "unknown"


if __name__ == "__main__":
    main()
