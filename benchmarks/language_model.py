"""How soon does a small language model write, beside nanoGPT's own loop on the same machine?

    python benchmarks/language_model.py --write                 the comparison, two rounds
    python benchmarks/language_model.py --best 15min --write    the best that so much time gives

The characters of Shakespeare, the first nine tenths to learn from and the rest to judge by, in the
small setting that nanoGPT's README gives for a CPU. Each engine trains in a process of its own, one
after the other, round after round. No evaluation is timed: nanoGPT's clock stands still during it,
and Regard is trained a second time for its curve, which changes no weight. Run it with nothing else
running; a round takes some five minutes. What is done is kept below --keep as it goes.
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
from report import DOCS, RESULTS, keep, machine, table

HERE = Path(__file__).parent
TEXT = HERE.parent.parent / "shared" / "data" / "tinyshakespeare" / "input.txt"
RECIPE = HERE.parent / "recipes" / "shakespeare-char.yaml"
BEST = HERE / "recipes" / "shakespeare-best.yaml"
RESULT = RESULTS / "language_model.json"
PUBLISHED, PUBLISHED_ON_GPU = 1.88, 1.4697  # nanoGPT's README: best validation losses
LOOK = 100  # steps from one point of a curve to the next
# Ways to train with Regard: the share of the steps, and what is not as in the recipe.
VARIANTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "Regard": (1, ()),
    "Regard, planned short": (0.25, ("training.optimizer.learning_rate=0.012",)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--best", metavar="TIME", help="train the best model in 15min, say")
    parser.add_argument("--keep", type=Path, help="a folder for results, used again where there")
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.keep or Path(folder) / "results"
        store.mkdir(parents=True, exist_ok=True)
        data = _export(Path(folder) / "data")
        # Either part leaves what is known of the other as it is.
        result = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {}
        if options.best:
            result["best"] = _best(data, store, options) | {"machine": machine()}
        else:
            result |= _compare(data, store, options) | {"machine": machine()}
    section = _section(result)
    print(section)
    if options.write:
        keep("language_model", result, section)
        if "engines" in result:
            (DOCS / "images" / "language-model.svg").write_text(draw(result), encoding="utf-8")


def _export(folder: Path) -> Path:
    """The usual split, as text for Regard and as ids for nanoGPT."""
    folder.mkdir()
    text = TEXT.read_text(encoding="utf-8")
    end = int(0.9 * len(text))
    for name, part in (("train", text[:end]), ("dev", text[end:])):
        (folder / f"{name}.txt").write_text(part, encoding="utf-8")
    number = {character: each for each, character in enumerate(sorted(set(text)))}
    ids = np.array([number[character] for character in text], np.uint16)
    ids[:end].tofile(folder / "train.bin")
    ids[end:].tofile(folder / "val.bin")
    (folder / "meta.json").write_text(json.dumps({"vocabulary": len(number)}), encoding="utf-8")
    return folder


def _run(name: str, command: Sequence[str], store: Path) -> dict[str, Any]:
    out = store / f"{name}.json"
    if not out.exists():
        whole = [sys.executable, *command, "--out", str(out)]
        done = subprocess.run(whole, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(out.read_text("utf-8"))
    print(f"{name}: {result['seconds']:.1f} s, loss {result['loss']:.4f}", flush=True)
    return result


def _ours(recipe: Path, data: Path, threads: int, *changes: str) -> list[str]:
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
    peer += ["--steps", str(steps), "--look", str(LOOK)]
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
        watched = _run(f"{_slug(name)}-watched", _variant(name, data, options, LOOK), store)
        if watched["loss"] != rounds[0][name]["loss"]:
            sys.exit(f"{name}: the curve is not of the weights that were timed: not exact.")
        for each in rounds:
            each[name]["curve"] = _timed(watched["curve"], each[name])
    return {"steps": steps, "threads": threads, "engines": _summary(rounds)}


def _variant(name: str, data: Path, options: argparse.Namespace, look: int = 0) -> list[str]:
    """A way to train with the recipe; looked at every so many steps, or only at the end."""
    share, changes = VARIANTS[name]
    steps = int(share * options.steps)
    plan = [f"training.steps={steps}", f"training.evaluation.every={look or steps}"]
    last = "training.evaluation.select=last"
    return _ours(RECIPE, data, options.threads, *plan, last, *changes)


def _slug(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


def _timed(curve: list[dict[str, float]], run: dict[str, Any]) -> list[dict[str, float]]:
    """The same losses at the times of the run that nobody looked at."""
    done = [*run["starts"][1:], run["seconds"]]  # an update is done when the next begins
    return [{**look, "seconds": done[int(look["step"]) - 1]} for look in curve]


def _summary(rounds: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Medians over the rounds; ratios are taken within a round."""

    def median(name: str, key: str) -> float:
        return statistics.median(each[name][key] for each in rounds)

    for each in rounds:
        for run in each.values():
            run["to_published"] = _first(run["curve"], PUBLISHED)
    return {
        name: {
            "seconds": median(name, "seconds"),
            "loss": median(name, "loss"),
            "estimate": median(name, "estimate"),
            "to_published": _median_time([each[name]["to_published"] for each in rounds]),
            "of_nanogpt": statistics.median(
                each[name]["seconds"] / each["nanoGPT"]["seconds"] for each in rounds
            ),
            "steps": rounds[0][name]["steps"],
            "all_seconds": [each[name]["seconds"] for each in rounds],
            **{key: rounds[0][name][key] for key in ("parameters", "peak_memory_bytes", "curve")},
        }
        for name in rounds[0]
    }


def _first(curve: list[dict[str, float]], loss: float) -> float | None:
    return next((look["seconds"] for look in curve if look["loss"] <= loss), None)


def _median_time(times: Sequence[float | None]) -> float | None:
    return None if None in times else statistics.median(filter(None, times))


def _best(data: Path, store: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = _ours(BEST, data, options.threads, f"training.budget={options.best}")
    run = _run(f"Regard-best-{options.best}", command, store)
    keys = ("loss", "estimate", "steps", "kept_step", "seconds", "parameters", "curve", "recipe")
    return {"time": options.best, **{key: run[key] for key in keys}}


def draw(result: dict[str, Any]) -> str:
    """Validation loss over time."""
    lines: dict[str, Line] = {
        name: Line(
            [look["seconds"] for look in engine["curve"]],
            [look["loss"] for look in engine["curve"]],
        )
        for name, engine in result["engines"].items()
    }
    threads = result["threads"]
    across = f"seconds of training on {threads} thread{'s' * (threads > 1)}"
    return plot_lines(lines, across, "validation loss")


def _section(result: dict[str, Any]) -> str:
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
            f"{each['steps']:,}",
            time(each["seconds"]),
            f"{each['of_nanogpt']:.2f}×",
            f"{each['loss']:.4f}",
            f"{each['estimate']:.3f}",
            time(each["to_published"]),
            f"{each['parameters']:,}",
            f"{each['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for name, each in result["engines"].items()
    ]
    head = ["engine", "steps", "take", "of nanoGPT's time", "loss", "by random batches"]
    head += [f"time to {PUBLISHED}", "parameters", "memory"]
    about, rounds = result["machine"], len(result["engines"]["Regard"]["all_seconds"])
    return f"""The characters of Shakespeare (1.1 million, public domain), nine tenths to learn
from. The CPU setting of nanoGPT's README: 4 layers, 4 heads, D 128, context 64, 12 rows a batch,
no dropout; its published loss is {PUBLISHED}. nanoGPT's model and loop are written anew in
`benchmarks/peers/nanogpt.py`, with torch's fused AdamW; Regard is `regard train` with
`recipes/shakespeare-char.yaml`, checkpoints and metrics included. Evaluation is not
timed. The loss is exact, over every character of the last tenth but the first, in windows of 64
that begin where the one before ends; beside it nanoGPT's own figure, of 20 random batches. Planned
short is the same recipe for a quarter of the steps (rate 0.012). Times to {PUBLISHED} are to the
first of looks every {LOOK} steps. float32, {result["threads"]} thread(s), each engine in a process
of its own, {rounds} round(s), medians. {about["cpu"]}, torch {about["torch"]}.

{table(head, rows)}

![Validation loss over time](../images/language-model.svg)"""


def _best_section(best: dict[str, Any]) -> str:
    return f"""### The best in {best["time"]}

`benchmarks/recipes/shakespeare-best.yaml`, {best["parameters"]:,} parameters: {best["steps"]:,}
steps in {best["time"]} on two cores, looks at the validation split included, bring the loss to
**{best["loss"]:.4f}** at step {best["kept_step"]:,}, the best of its looks ({best["estimate"]:.3f}
by random batches). nanoGPT's README names {PUBLISHED_ON_GPU} as its best, with 10.7 million
parameters on a GPU."""


if __name__ == "__main__":
    main()
