"""Compare the quality of translators after the same training time on the same machine.

    python benchmarks/quality.py --seconds 1200 --write

Every engine trains with its usual settings for --seconds in its own process, one after the other;
its best checkpoint translates the test set with a beam of 5. Regard's schedule depends on its time
budget, so its time to a score is the shortest budget that reaches it. Run it on an idle machine;
with three engines and 20 minutes it takes an hour and a half.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from corpus import export
from regard.evaluation.bootstrap import confidence, paired_bootstrap
from regard.plotting import Line, plot_lines
from report import DOCS, machine, table, write_results
from training import ENGINES

SCORES = (30, 40)  # dev BLEU to whose first time the engines are compared
DEFAULT = ("Regard", "torch.nn.Transformer", "Hugging Face Marian")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument(
        "--budgets",
        type=float,
        nargs="*",
        default=[200, 280],
        help="further time budgets of Regard in seconds",
    )
    parser.add_argument("--engines", nargs="*", default=list(DEFAULT), choices=list(ENGINES))
    parser.add_argument("--keep", type=Path, help="folder of results to reuse")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = export(Path(folder) / "data")
        store = options.keep or Path(folder) / "results"
        store.mkdir(parents=True, exist_ok=True)
        runs = {name: _run(name, options.seconds, data, store) for name in options.engines}
        short = [_run("Regard", seconds, data, store) for seconds in sorted(options.budgets)]
        references = (data / "test.en").read_text("utf-8").removesuffix("\n").split("\n")
    result = _summary(runs, short, references, options.seconds)
    section = describe(result)
    print(section)
    if options.write:
        write_results("quality", result, section)
        (DOCS / "images" / "quality.svg").write_text(draw(result), encoding="utf-8")


def _run(name: str, seconds: float, data: Path, store: Path) -> dict[str, Any]:
    out = store / f"{name.replace(' ', '-')}-{seconds:.0f}.json"
    if not out.exists() or "test_bleu" not in out.read_text("utf-8"):
        command = [sys.executable, *ENGINES[name], str(data), "--mode", "train"]
        command += ["--seconds", str(seconds), "--threads", "2", "--out", str(out)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(out.read_text("utf-8"))
    print(f"{name}, {seconds:.0f} s: test BLEU {result['test_bleu']:.2f}", flush=True)
    return {**result, "budget": seconds}


def _summary(
    runs: dict[str, dict[str, Any]],
    short: list[dict[str, Any]],
    references: list[str],
    seconds: float,
) -> dict[str, Any]:
    regard = runs["Regard"]["test_hypotheses"]
    engines = {}
    for name, run in runs.items():
        outputs = run["test_hypotheses"]
        interval = confidence(references=references, outputs=outputs)
        compared = paired_bootstrap(references=references, ours=regard, theirs=outputs)
        engines[name] = {
            "test_bleu": run["test_bleu"],
            "margin": interval.margin,
            "signature": interval.signature,
            "p_value": None if name == "Regard" else compared.p_value,
            "dev_bleu": run["best_dev_bleu"],
            "seconds_to": _times_of_regard([*short, run]) if name == "Regard" else _times(run),
            "curve": run["curve"],
        }
    budgets = [
        {key: run[key] for key in ("budget", "best_dev_bleu", "test_bleu")}
        for run in (*short, runs["Regard"])
    ]
    return {"machine": machine(), "seconds": seconds, "engines": engines, "budgets": budgets}


def _times(run: dict[str, Any]) -> dict[str, float | None]:
    return {
        str(score): next(
            (point["seconds"] for point in run["curve"] if point["dev_bleu"] >= score), None
        )
        for score in SCORES
    }


def _times_of_regard(runs: list[dict[str, Any]]) -> dict[str, float | None]:
    return {
        str(score): next((run["budget"] for run in runs if run["best_dev_bleu"] >= score), None)
        for score in SCORES
    }


def draw(result: dict[str, Any]) -> str:
    """Draw dev BLEU over time: curves of the peers, final scores of Regard by budget."""
    lines: dict[str, Line] = {
        name: Line(
            [point["seconds"] / 60 for point in engine["curve"]],
            [point["dev_bleu"] for point in engine["curve"]],
            markers=False,
        )
        for name, engine in result["engines"].items()
        if name != "Regard"
    }
    budgets = result["budgets"]
    lines["Regard, by time budget"] = Line(
        [run["budget"] / 60 for run in budgets],
        [run["best_dev_bleu"] for run in budgets],
    )
    return plot_lines(lines, "minutes of training on 2 cores", "dev BLEU, French → English")


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""

    def time(seconds: float | None) -> str:
        return "not reached" if seconds is None else f"{seconds:,.0f} s"

    rows = [
        [
            name,
            f"{engine['test_bleu']:.1f} ± {engine['margin']:.1f}",
            "" if engine["p_value"] is None else f"{engine['p_value']:.3f}",
            f"{engine['dev_bleu']:.1f}",
            *(time(engine["seconds_to"][str(score)]) for score in SCORES),
        ]
        for name, engine in result["engines"].items()
    ]
    head = ["engine", "test BLEU", "p against Regard", "dev BLEU (greedy)"]
    head += [f"time to dev BLEU {score}" for score in SCORES]
    budgets = [
        [f"{run['budget']:,.0f} s", f"{run['best_dev_bleu']:.1f}", f"{run['test_bleu']:.1f}"]
        for run in result["budgets"]
    ]
    signature = result["engines"]["Regard"]["signature"]
    return f"""## Quality after {result["seconds"] / 60:.0f} minutes on 2 cores

Multi30k French → English (Elliott et al. 2016, 2017), test_2016_flickr, beam 5, cased and
detokenized, sacrebleu `{signature}`; 95 % intervals and p-values by (paired) bootstrap. Peers train
with Adam and an inverse square root schedule with warmup; Regard with
`recipes/multi30k-fr-en.yaml`. The time of the peers excludes evaluation. One run each.

{table(head, rows)}

![Dev BLEU over time](../images/quality.svg)

Regard by time budget:

{table(["budget", "dev BLEU (greedy)", "test BLEU (beam 5)"], budgets)}
"""


if __name__ == "__main__":
    main()
