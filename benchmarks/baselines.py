"""Compare the Transformer with its baselines: the same recipes, the same training time.

    python benchmarks/baselines.py --keep results/ --write

On SST-2 (sentiment of movie reviews) and on the characters of Shakespeare, each kind of model is
trained with the recipe of the Transformer, with the model as the only change, for --minutes on one
thread, in its own process, two at a time. Finished runs in the folder of --keep are reused. The
recurrent translator takes longer and is not trained here: give its run folder with --translator.
On two idle cores the script takes eleven minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import machine, table, write_results
from shared_data import DATA

ROOT = Path(__file__).parent.parent
PROCESSES = 2

CLASSIFIER = {"dim": 128, "dropout": 0.3, "max_length": 128}
LANGUAGE_MODEL = {"dropout": 0, "max_length": 64}


@dataclass(frozen=True)
class Task:
    title: str
    recipe: str
    evaluate_every: int  # steps between evaluations on the dev data
    # Model specs by name; None is the model of the recipe.
    models: dict[str, dict[str, Any] | None]


TASKS = {
    "sst2": Task(
        "SST-2",
        "sst2",
        50,
        {
            "Transformer": None,
            "recurrent": {"kind": "recurrent", **CLASSIFIER},
            "convolutional": {"kind": "convolutional", "layers": 2, **CLASSIFIER},
            "self-attention only": {"kind": "self-attention-only", "layers": 2, **CLASSIFIER},
        },
    ),
    "shakespeare": Task(
        "characters of Shakespeare",
        "shakespeare-char",
        500,
        {
            "Transformer": None,
            "recurrent": {"kind": "recurrent", "dim": 256, **LANGUAGE_MODEL},
            "convolutional": {"kind": "convolutional", "dim": 128, **LANGUAGE_MODEL},
            "self-attention only": {"kind": "self-attention-only", "dim": 128, **LANGUAGE_MODEL},
            "self-attention only, tied": {
                "kind": "self-attention-only",
                "dim": 128,
                "tie_embeddings": True,
                **LANGUAGE_MODEL,
            },
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--minutes", type=float, default=2, help="training time of each model (default: 2)"
    )
    parser.add_argument(
        "--translator", type=Path, help="run folder of multi30k-fr-en-recurrent.yaml"
    )
    parser.add_argument("--keep", type=Path, help="folder of the runs; finished runs are reused")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = (options.keep or Path(folder)).resolve()
        result = measure(runs, options.minutes)
    if options.translator is not None:
        result["translator"] = _summary(options.translator)
    section = describe(result)
    print(section)
    if options.write:
        write_results("baselines", result, section)


def measure(runs: Path, minutes: float) -> dict[str, Any]:
    """Train every model of every task."""
    names = [(task, model) for task in TASKS for model in TASKS[task].models]
    with ThreadPoolExecutor(PROCESSES) as pool:
        rows = list(pool.map(lambda name: _trained(runs, minutes, *name), names))
    return {"machine": {**machine(), "threads": 1}, "minutes": minutes, "rows": rows}


def _trained(runs: Path, minutes: float, task: str, model: str) -> dict[str, Any]:
    """Return the results of one model of one task; train it unless its run is there."""
    run = runs / f"{task}-{model.replace(', ', '-').replace(' ', '-')}-{60 * minutes:.0f}s"
    if not (run / "model.json").exists():
        spec, settings = TASKS[task].models[model], TASKS[task]
        command = [sys.executable, "-m", "regard", "train", f"recipes/{settings.recipe}.yaml"]
        command += [
            "--run",
            str(run),
            "training.steps=null",
            f"training.budget={60 * minutes:.0f}s",
        ]
        command += [f"training.evaluation.every={settings.evaluate_every}"]
        command += [f"data.prepared={runs / 'prepared' / run.name}"]  # one for each process
        command += [] if spec is None else [f"model={json.dumps(spec)}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "REGARD_DATA": str(DATA)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{task}, {model}: failed:\n{done.stderr[-2000:]}")
    row = {"task": task, "model": model, **_summary(run)}
    summary = f"{row['steps']} steps, {row['best']:.4f} on dev"
    print(f"{task}, {model}: {summary}", file=sys.stderr, flush=True)
    return row


def _summary(run: Path) -> dict[str, Any]:
    """Return parameters, steps and scores of a run folder."""
    content = json.loads((run / "model.json").read_text("utf-8"))
    details = content["details"]
    training = details["training"]
    return {
        "parameters": details["parameters"],
        "steps": training["step"],
        "best_step": training["best_step"],
        "tokens": training["target_tokens"],
        "minutes": training["elapsed_seconds"] / 60,
        "best": training["best"],
        "scores": details["scores"],
        "scored_on": details.get("scored_on"),
        "spec": content["model"],
    }


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    rows = {(row["task"], row["model"]): row for row in result["rows"]}
    names = list(dict.fromkeys(row["model"] for row in result["rows"]))
    body = [
        [name, *_accuracy(rows.get(("sst2", name))), *_loss(rows.get(("shakespeare", name)))]
        for name in names
    ]
    head = ["", "SST-2, test accuracy", "parameters", "steps"]
    head += ["Shakespeare, dev loss per character", "parameters", "steps"]
    return f"""## Baselines

The recipes `sst2.yaml` and `shakespeare-char.yaml` with the model as the only change
([baselines](../how-to/baselines.md)): one run each of {result["minutes"]:g} min on one thread, two
at a time. All have the optimizer and the learning rates chosen for the Transformer. Accuracy is on
the 1,821 sentences of the test data, with its 95 % interval, of the weights that are best on dev;
the loss is in nats on the last tenth of the text, of the weights that are best there.

{table(head, body)}
{_translation(result.get("translator"))}"""


def _accuracy(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 3
    accuracy, low, high = (
        100 * row["scores"][name] for name in ("accuracy", "accuracy_low", "accuracy_high")
    )
    interval = f"{accuracy:.1f} % ({low:.1f} – {high:.1f})"
    return [interval, f"{row['parameters']:,}", f"{row['steps']:,}"]


def _loss(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 3
    return [f"{row['scores']['loss']:.2f}", f"{row['parameters']:,}", f"{row['steps']:,}"]


def _translation(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    [(direction, scores)] = row["scores"].items()
    return f"""
`multi30k-fr-en-recurrent.yaml` (Bahdanau et al. 2015; {row["parameters"]:,} parameters), trained
for {row["minutes"]:.0f} minutes, {row["steps"]:,} steps: **{scores["bleu"]:.1f} BLEU** on the
{scores["pairs"]:,} pairs of test 2016 ({direction}; sacrebleu, cased, greedy), {row["best"]:.1f} on
dev, best at step {row["best_step"]:,}.
"""


if __name__ == "__main__":
    main()
