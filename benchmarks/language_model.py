"""Compare the training of a small language model with nanoGPT's loop on the same machine.

    python benchmarks/language_model.py --write                 the comparison, two rounds
    python benchmarks/language_model.py --best 15min --write    the best model of a time budget

The characters of Shakespeare, the first nine tenths for training and the rest for validation, in
the small CPU setting of nanoGPT's README. Each engine trains in its own process, one after the
other, in several rounds. Evaluation is not timed: nanoGPT's clock excludes it, and Regard is
trained a second time for its curve, which changes no weight. Run it on an idle machine; a round
takes about five minutes. Results are stored in the folder of --keep and reused.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.plotting import Line, plot_lines
from report import DOCS, PAGES, machine, table, write_results
from shared_data import DATA

HERE = Path(__file__).parent
TEXT = DATA / "tinyshakespeare" / "input.txt"
RECIPE = HERE.parent / "recipes" / "shakespeare-char.yaml"
BEST = HERE / "recipes" / "shakespeare-best.yaml"
RESULT = PAGES["benchmarks"].with_suffix("") / "language_model.json"
PUBLISHED, PUBLISHED_ON_GPU = 1.88, 1.4697  # nanoGPT's README: best validation losses
EVALUATE_EVERY = 100  # steps between the points of a curve
# Variants of Regard's training: fraction of the steps, and overrides of the recipe.
VARIANTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "Regard": (1, ()),
    "Regard, a quarter of the steps": (0.25, ("training.optimizer.learning_rate=0.012",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--best", metavar="TIME", help="train the best model in this time, such as 15min"
    )
    parser.add_argument("--keep", type=Path, help="folder of results to reuse")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.keep or Path(folder) / "results"
        store.mkdir(parents=True, exist_ok=True)
        data = _export(Path(folder) / "data")
        # Each part of the result keeps the other part of an earlier call.
        result = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
        if options.best:
            result["best"] = _best(data, store, options) | {"machine": machine()}
        else:
            result |= _compare(data, store, options) | {"machine": machine()}
    section = describe(result)
    print(section)
    if options.write:
        write_results("language_model", result, section)
        if "engines" in result:
            (DOCS / "images" / "language-model.svg").write_text(draw(result), encoding="utf-8")


def _export(folder: Path) -> Path:
    """Write the usual split, as text for Regard and as ids for nanoGPT."""
    folder.mkdir()
    text = TEXT.read_text(encoding="utf-8")
    end = int(0.9 * len(text))
    for name, part in (("train", text[:end]), ("dev", text[end:])):
        (folder / f"{name}.txt").write_text(part, encoding="utf-8")
    number = {character: index for index, character in enumerate(sorted(set(text)))}
    ids = np.array([number[character] for character in text], np.uint16)
    ids[:end].tofile(folder / "train.bin")
    ids[end:].tofile(folder / "val.bin")
    (folder / "meta.json").write_text(json.dumps({"vocabulary": len(number)}), encoding="utf-8")
    return folder


def _run(name: str, command: Sequence[str], store: Path) -> dict[str, Any]:
    out = store / f"{name}.json"
    if not out.exists():
        full = [sys.executable, *command, "--out", str(out)]
        done = subprocess.run(full, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(out.read_text("utf-8"))
    print(f"{name}: {result['seconds']:.1f} s, loss {result['loss']:.4f}", flush=True)
    return result


def _regard(recipe: Path, data: Path, threads: int, *changes: str) -> list[str]:
    return [
        str(HERE / "regard_language_model.py"),
        str(recipe),
        str(data),
        "--threads",
        str(threads),
        *changes,
    ]


def _compare(data: Path, store: Path, options: argparse.Namespace) -> dict[str, Any]:
    steps, threads = options.steps, options.threads
    peer = [str(HERE / "peers" / "nanogpt.py"), str(data), "--threads", str(threads)]
    peer += ["--steps", str(steps), "--evaluate-every", str(EVALUATE_EVERY)]
    rounds = [
        {
            "nanoGPT": _run(f"nanoGPT-{number}", peer, store),
            **{
                name: _run(f"{_slug(name)}-{number}", _variant(name, data, options), store)
                for name in VARIANTS
            },
        }
        for number in range(1, options.rounds + 1)
    ]
    for name in VARIANTS:
        evaluated = _run(
            f"{_slug(name)}-evaluated", _variant(name, data, options, EVALUATE_EVERY), store
        )
        if evaluated["loss"] != rounds[0][name]["loss"]:
            sys.exit(f"{name}: the run with evaluations has other weights than the timed run.")
        for runs in rounds:
            runs[name]["curve"] = _timed(evaluated["curve"], runs[name])
    return {"steps": steps, "threads": threads, "engines": _summary(rounds)}


def _variant(name: str, data: Path, options: argparse.Namespace, every: int = 0) -> list[str]:
    """Return the command of a variant; it evaluates every so many steps, or only at the end."""
    fraction, changes = VARIANTS[name]
    steps = int(fraction * options.steps)
    plan = [f"training.steps={steps}", f"training.evaluation.every={every or steps}"]
    last = "training.evaluation.select=last"
    return _regard(RECIPE, data, options.threads, *plan, last, *changes)


def _slug(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


def _timed(curve: list[dict[str, float]], run: dict[str, Any]) -> list[dict[str, float]]:
    """Return the losses at the times of the run without evaluations."""
    done = [*run["starts"][1:], run["seconds"]]  # an update is done when the next begins
    return [{**point, "seconds": done[int(point["step"]) - 1]} for point in curve]


def _summary(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return medians over the rounds; ratios are computed within a round."""

    def median(name: str, key: str) -> float:
        return statistics.median(runs[name][key] for runs in rounds)

    for runs in rounds:
        for run in runs.values():
            run["to_published"] = _first(run["curve"], PUBLISHED)
    return {
        name: {
            "seconds": median(name, "seconds"),
            "loss": median(name, "loss"),
            "estimate": median(name, "estimate"),
            "to_published": _median_time([runs[name]["to_published"] for runs in rounds]),
            "of_nanogpt": statistics.median(
                runs[name]["seconds"] / runs["nanoGPT"]["seconds"] for runs in rounds
            ),
            "steps": rounds[0][name]["steps"],
            "all_seconds": [runs[name]["seconds"] for runs in rounds],
            **{key: rounds[0][name][key] for key in ("parameters", "peak_memory_bytes", "curve")},
        }
        for name in rounds[0]
    }


def _first(curve: list[dict[str, float]], loss: float) -> float | None:
    return next((point["seconds"] for point in curve if point["loss"] <= loss), None)


def _median_time(times: Sequence[float | None]) -> float | None:
    return None if None in times else statistics.median(filter(None, times))


def _best(data: Path, store: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = _regard(BEST, data, options.threads, f"training.budget={options.best}")
    run = _run(f"Regard-best-{options.best}", command, store)
    keys = ("loss", "estimate", "steps", "kept_step", "seconds", "parameters", "curve", "recipe")
    return {"time": options.best, **{key: run[key] for key in keys}}


def draw(result: dict[str, Any]) -> str:
    """Draw the validation loss over time."""
    lines: dict[str, Line] = {
        name: Line(
            [point["seconds"] for point in engine["curve"]],
            [point["loss"] for point in engine["curve"]],
        )
        for name, engine in result["engines"].items()
    }
    threads = result["threads"]
    label = f"seconds of training on {threads} thread{'s' * (threads > 1)}"
    return plot_lines(lines, label, "validation loss")


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    parts = ["## A small language model"]
    if "engines" in result:
        parts.append(_comparison(result))
    if "best" in result:
        parts.append(_best_section(result["best"]))
    return "\n\n".join(parts)


def _comparison(result: dict[str, Any]) -> str:
    def time(seconds: float | None) -> str:
        return "not reached" if seconds is None else f"{seconds:,.1f} s"

    rows = [
        [
            name,
            f"{engine['steps']:,}",
            time(engine["seconds"]),
            f"{engine['of_nanogpt']:.2f}×",
            f"{engine['loss']:.4f}",
            f"{engine['estimate']:.3f}",
            time(engine["to_published"]),
            f"{engine['parameters']:,}",
            f"{engine['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for name, engine in result["engines"].items()
    ]
    head = ["engine", "steps", "time", "relative time", "loss", "loss of random batches"]
    head += [f"time to {PUBLISHED}", "parameters", "memory"]
    about, rounds = result["machine"], len(result["engines"]["Regard"]["all_seconds"])
    return f"""The characters of Shakespeare (1.1 million, public domain), nine tenths for
training. The CPU setting of nanoGPT's README: 4 layers, 4 heads, D 128, context 64, 12 rows a
batch, no dropout; its published loss is {PUBLISHED}. nanoGPT's model and loop are reimplemented in
`benchmarks/peers/nanogpt.py`, with torch's fused AdamW; Regard is `regard train` with
`recipes/shakespeare-char.yaml`, including checkpoints and metrics. Evaluation is not timed. The
loss is exact, over every character of the last tenth except the first, in adjacent windows of 64;
nanoGPT's own estimate of 20 random batches is in another column. "A quarter of the steps" is the
same recipe with learning rate 0.012. Times to {PUBLISHED} are those of the first of the evaluations
every {EVALUATE_EVERY} steps. float32, {result["threads"]} thread(s), each engine in its own
process, {rounds} round(s), medians. {about["cpu"]}, torch {about["torch"]}.

{table(head, rows)}

![Validation loss over time](../images/language-model.svg)"""


def _best_section(best: dict[str, Any]) -> str:
    return f"""### The best model in {best["time"]}

`benchmarks/recipes/shakespeare-best.yaml`, {best["parameters"]:,} parameters: {best["steps"]:,}
steps in {best["time"]} on two cores, including evaluations, reach a loss of
**{best["loss"]:.4f}** at step {best["kept_step"]:,}, the best of the evaluations
({best["estimate"]:.3f} on random batches). The best loss in nanoGPT's README is {PUBLISHED_ON_GPU},
with 10.7 million parameters on a GPU."""


if __name__ == "__main__":
    main()
