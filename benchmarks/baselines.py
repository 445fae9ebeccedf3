"""What came before the Transformer, and the Transformer, with the same recipes in the same time.

    python benchmarks/baselines.py --keep results/ --write

On SST-2 (is a sentence about a film kind to it?) and on the characters of Shakespeare, each kind of
model is trained with the recipe of the Transformer, of which the model is the only change, for so
many minutes on one thread, in a process of its own, two at a time. What is finished below --keep is
found again by the next call. Of a translator, which takes longer, a finished run may be given. With
nothing else running and two cores it takes eleven minutes.
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

from report import keep, machine, table

HOME = Path(__file__).parent.parent
AT_ONCE = 2

JUDGING = {"dim": 128, "dropout": 0.3, "max_length": 128}
WRITING = {"dropout": 0, "max_length": 64}


@dataclass(frozen=True)
class Task:
    title: str
    recipe: str
    look: int  # steps from one look at the dev data to the next
    # What is trained: by name, the model; None where it is the recipe's own.
    models: dict[str, dict[str, Any] | None]


TASKS = {
    "sst2": Task(
        "SST-2",
        "sst2",
        50,
        {
            "Transformer": None,
            "recurrent": {"kind": "recurrent", **JUDGING},
            "word windows": {"kind": "convolutional", "layers": 2, **JUDGING},
            "bare": {"kind": "self-attention-only", "layers": 2, **JUDGING},
        },
    ),
    "shakespeare": Task(
        "characters of Shakespeare",
        "shakespeare-char",
        500,
        {
            "Transformer": None,
            "recurrent": {"kind": "recurrent", "dim": 256, **WRITING},
            "word windows": {"kind": "convolutional", "dim": 128, **WRITING},
            "bare": {"kind": "self-attention-only", "dim": 128, **WRITING},
            "bare, tied": {
                "kind": "self-attention-only",
                "dim": 128,
                "tie_embeddings": True,
                **WRITING,
            },
        },
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2, help="of training, each model")
    parser.add_argument("--translator", type=Path, help="a run of multi30k-fr-en-recurrent.yaml")
    parser.add_argument("--keep", type=Path, help="a folder for runs, used again where finished")
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = (options.keep or Path(folder)).resolve()
        result = measure(home, options.minutes)
    if options.translator is not None:
        result["translator"] = _summary(options.translator)
    section = describe(result)
    print(section)
    if options.write:
        keep("baselines", result, section)


def measure(home: Path, minutes: float) -> dict[str, Any]:
    named = [(task, model) for task in TASKS for model in TASKS[task].models]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = list(pool.map(lambda each: _trained(home, minutes, *each), named))
    return {"machine": {**machine(), "threads": 1}, "minutes": minutes, "rows": rows}


def _trained(home: Path, minutes: float, task: str, model: str) -> dict[str, Any]:
    """One model of one task, trained now unless it is there."""
    run = home / f"{task}-{model.replace(', ', '-').replace(' ', '-')}-{60 * minutes:.0f}s"
    if not (run / "model.json").exists():
        spec, settings = TASKS[task].models[model], TASKS[task]
        command = [sys.executable, "-m", "regard", "train", f"recipes/{settings.recipe}.yaml"]
        command += [
            "--run",
            str(run),
            "training.steps=null",
            f"training.budget={60 * minutes:.0f}s",
        ]
        command += [f"training.evaluation.every={settings.look}"]
        command += [f"data.prepared={home / 'prepared' / run.name}"]  # two at a time: each its own
        command += [] if spec is None else [f"model={json.dumps(spec)}"]
        # The paths of recipes are those of the project's root.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{task}, {model}: failed:\n{done.stderr[-2000:]}")
    row = {"task": task, "model": model, **_summary(run)}
    told = f"{row['steps']} steps, {row['best']:.4f} on dev"
    print(f"{task}, {model}: {told}", file=sys.stderr, flush=True)
    return row


def _summary(run: Path) -> dict[str, Any]:
    """What a run folder says of itself."""
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
    rows = {(row["task"], row["model"]): row for row in result["rows"]}
    names = list(dict.fromkeys(row["model"] for row in result["rows"]))
    body = [
        [name, *_judging(rows.get(("sst2", name))), *_writing(rows.get(("shakespeare", name)))]
        for name in names
    ]
    head = ["", "SST-2, test accuracy", "parameters", "steps"]
    head += ["Shakespeare, dev loss a character", "parameters", "steps"]
    return f"""## Baselines

The recipes `sst2.yaml` and `shakespeare-char.yaml`, with the model as the only change
([how](../how-to/baselines.md)): one run each of {result["minutes"]:g} min on one thread, two at a
time. All have the optimizer and the rates that were chosen for the Transformer. Accuracy is on
the 1,821 sentences of the test data, with its 95 % interval, at the weights that are best on
dev; the loss is in nats on the last tenth of the text, at the weights that are best there.

{table(head, body)}
{_translating(result.get("translator"))}"""


def _judging(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 3
    accuracy, low, high = (100 * row["scores"][name] for name in ("accuracy", "low", "high"))
    told = f"{accuracy:.1f} % ({low:.1f} – {high:.1f})"
    return [told, f"{row['parameters']:,}", f"{row['steps']:,}"]


def _writing(row: dict[str, Any] | None) -> list[str]:
    if row is None:
        return [""] * 3
    return [f"{row['scores']['loss']:.2f}", f"{row['parameters']:,}", f"{row['steps']:,}"]


def _translating(row: dict[str, Any] | None) -> str:
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
