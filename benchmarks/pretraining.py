"""Does pretraining help? The same encoder from scratch and pretrained, with few labels and all.

    python benchmarks/pretraining.py --keep results/ --write

An encoder is pretrained once, for all, on film reviews without labels, from which every dev and
test sentence of SST-2 is kept out. Then, with 100, 1,000 and all labels of SST-2 and three seeds
each, a classifier is trained from scratch and one from that encoder: the same tokeniser, model,
texts, steps, batches and rates. Of two learning rates the one with the better dev accuracy is
taken, by the same rule for both, and so are the weights; what is told is the accuracy on test.
Every result is kept as it comes, and found again by the next call. About half an hour on two cores.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.plotting import Line, add_line, style_axes, svg_figure
from regard.training.recipe import make_recipe
from regard.training.trainer import train
from report import DOCS, keep, machine, table

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
ARMS = ("from scratch", "pretrained")
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # 95 % by Student's t, by the number of seeds
MODEL = {"dim": 128, "heads": 4, "ffn_dim": 512, "layers": 2, "max_length": 128}
PUBLISHED = [["convolutional, random vectors (Kim 2014, trained on phrases)", "82.7"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pretraining", type=int, default=3000, help="steps of the masked model")
    parser.add_argument("--share", type=float, default=0.3, help="of the pieces, to be guessed")
    parser.add_argument("--labels", type=int, nargs="*", default=[100, 1000, 6920])
    parser.add_argument("--steps", type=int, nargs="*", default=[60, 120, 200], help="for each")
    parser.add_argument("--rates", type=float, nargs="*", default=[0.002, 0.008])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--init", type=Path, help="a masked model instead of pretraining one")
    parser.add_argument("--minilm", type=Path, help="a run imported from all-MiniLM-L6-v2")
    parser.add_argument("--minilm-steps", type=int, default=60)
    parser.add_argument("--writer", type=Path, help="a language model, to label without training")
    parser.add_argument("--keep", type=Path, help="a folder for results, used again where there")
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    if len(options.labels) != len(options.steps):
        sys.exit("give as many --steps as --labels")
    with tempfile.TemporaryDirectory() as folder:
        home = options.keep or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        result = measure(Bench(home, options))
    section = describe(result)
    print(section)
    if options.write:
        keep("pretraining", result, section)
        (DOCS / "images" / "pretraining.svg").write_text(draw(result), encoding="utf-8")


class Bench:
    """Where results are kept, and what is asked for."""

    def __init__(self, home: Path, options: argparse.Namespace) -> None:
        self.home, self.options = home, options

    def kept(self, name: str, made: Any) -> dict[str, Any]:
        """A result by name: that of an earlier call, or made now and kept."""
        path = self.home / f"{name}.json"
        if not path.exists():
            began = time.perf_counter()
            content = {**made(), "seconds": time.perf_counter() - began}
            path.write_text(json.dumps(content), encoding="utf-8")
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))
        print(f"{name}: {result}", file=sys.stderr, flush=True)
        return result


def measure(bench: Bench) -> dict[str, Any]:
    options = bench.options
    pretrained = options.init or bench.home / "masked"
    before = bench.kept("pretraining", lambda: _pretrain(pretrained, options, bench.home))
    rows = [
        {"labels": labels, "steps": steps, "arm": arm, "seed": seed, **found}
        for labels, steps in zip(options.labels, options.steps, strict=True)
        for seed in range(1, options.seeds + 1)
        for arm in ARMS
        for found in [_best(bench, pretrained, labels, steps, seed, arm)]
    ]
    others = dict(_others(bench))
    settings = {**MODEL, "dropout": options.dropout, "rates": options.rates, "before": before}
    return {"machine": machine(), "settings": settings, "rows": rows, "others": others}


def _pretrain(folder: Path, options: argparse.Namespace, home: Path) -> dict[str, Any]:
    if options.init is not None:
        return {"given": str(options.init)}
    reviews = DATA / "movie-reviews"
    paths = [str(reviews / f"rt-polarity.{side}") for side in ("pos", "neg")]
    content = {
        "task": {"kind": "masked-lm", "mask_rate": options.share},
        "data": {
            "train": {"kind": "text", "path": paths, "documents": "line"},
            "exclude": [_source("dev.tsv"), _source("test.tsv")],
            "dev_size": 300,
            "prepared": str(home / "prepared"),
        },
        "tokenizer": {"kind": "bpe", "vocabulary": 6000},
        "model": {"kind": "masked-lm", **MODEL},
        "training": {
            "steps": options.pretraining,
            "label_smoothing": 0.0,
            "evaluation": {"every": 200},
        },
    }
    train(make_recipe(content, (), "pretraining"), folder, overwrite=True)
    details = json.loads((folder / "model.json").read_text("utf-8"))["details"]
    return {"steps": details["training"]["step"], "scores": details["scores"]}


def _source(name: str) -> dict[str, Any]:
    return {"kind": "labeled", "path": str(DATA / "sst2" / name)}


def _best(
    bench: Bench, pretrained: Path, labels: int, steps: int, seed: int, arm: str
) -> dict[str, Any]:
    """The run whose rate is the better one on dev."""
    found = []
    for rate in bench.options.rates:
        changes = {} if arm == "from scratch" else {"init": str(pretrained)}
        tokenizer = {"kind": "file", "path": str(pretrained / "tokenizer.json")}
        content = _recipe(bench, labels, steps, seed, rate)
        content |= {"tokenizer": tokenizer, "model": {"kind": "classifier", **MODEL}} | changes
        content["model"] |= {"dropout": bench.options.dropout}
        name = f"{arm.replace(' ', '-')}-{labels}-seed{seed}-rate{rate:g}"
        found.append({"rate": rate} | bench.kept(name, lambda: _classifier(bench, content)))  # noqa: B023
    return max(found, key=lambda each: each["dev"])


def _recipe(bench: Bench, labels: int, steps: int, seed: int, rate: float) -> dict[str, Any]:
    """All but the model."""
    chosen = bench.home / f"train-{labels}-{seed}.tsv"
    lines = (DATA / "sst2" / "train.tsv").read_text("utf-8").splitlines(keepends=True)
    few = random.Random(seed).sample(lines, min(labels, len(lines)))
    chosen.write_text("".join(few), encoding="utf-8")
    return {
        "task": "classification",
        "data": {
            "train": {"kind": "labeled", "path": str(chosen)},
            "dev": _source("dev.tsv"),
            "test": _source("test.tsv"),
            "prepared": str(bench.home / "prepared"),
        },
        "training": {
            "steps": steps,
            "batch_tokens": 2048,
            "seed": seed,
            "dropout_start_epoch": 0,
            "optimizer": {"learning_rate": rate},
            "evaluation": {"every": max(1, steps // 5)},
        },
    }


def _classifier(bench: Bench, content: dict[str, Any]) -> dict[str, Any]:
    folder = bench.home / "classifier"
    train(make_recipe(content, (), "classifier"), folder, overwrite=True)
    details = json.loads((folder / "model.json").read_text("utf-8"))["details"]
    return {"dev": details["training"]["best"], "test": details["scores"]["accuracy"]}


def _others(bench: Bench) -> Iterator[tuple[str, dict[str, Any]]]:
    """What stands beside: a real pretrained encoder, a language model that saw no label."""
    options = bench.options
    if options.minilm is not None:
        content = _recipe(bench, max(options.labels), options.minilm_steps, 1, 0.001)
        content["init"] = str(options.minilm)
        yield (
            f"all-MiniLM-L6-v2 (Wang et al. 2020), fine-tuned for {options.minilm_steps} steps",
            bench.kept("minilm", lambda: _classifier(bench, content)),
        )
    if options.writer is not None:
        name = f"zero-shot, {options.writer.name}"
        yield name, bench.kept("writer", lambda: _zero_shot(options.writer))


def _zero_shot(folder: Path) -> dict[str, Any]:
    from regard.loading import load_language_model
    from regard.predictors.zero_shot import ZeroShotClassifier

    chooser = ZeroShotClassifier(
        load_language_model(folder), "{text} It was", {"1": " great", "0": " terrible"}
    )
    lines = (DATA / "sst2" / "test.tsv").read_text("utf-8").splitlines()
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    judged = chooser.classify(texts)
    right = sum(each.label == label for each, label in zip(judged, labels, strict=True))
    return {"test": right / len(labels)}


def _points(result: dict[str, Any]) -> dict[str, dict[int, tuple[float, float]]]:
    """By arm and labels: the mean over seeds in percent, and half its 95 % interval."""
    points: dict[str, dict[int, tuple[float, float]]] = {arm: {} for arm in ARMS}
    for arm in ARMS:
        for labels in sorted({row["labels"] for row in result["rows"]}):
            scores = [
                100 * row["test"]
                for row in result["rows"]
                if (row["arm"], row["labels"]) == (arm, labels)
            ]
            points[arm][labels] = _interval(scores)
    return points


def _gain(result: dict[str, Any], labels: int) -> tuple[float, float]:
    """Of the pretrained one, and half its interval: seeds are paired, they have the same texts."""
    rows = [row for row in result["rows"] if row["labels"] == labels]
    by_arm = {arm: {row["seed"]: row["test"] for row in rows if row["arm"] == arm} for arm in ARMS}
    before, after = (by_arm[arm] for arm in ARMS)
    return _interval([100 * (after[seed] - before[seed]) for seed in before])


def _interval(scores: list[float]) -> tuple[float, float]:
    """The mean, and half its 95 % interval."""
    half = 0.0
    if len(scores) > 1:
        spread = statistics.stdev(scores) / len(scores) ** 0.5
        half = STUDENT.get(len(scores), 2.571) * spread
    return statistics.mean(scores), half


def draw(result: dict[str, Any]) -> str:
    with svg_figure() as (figure, render):
        axes = figure.add_subplot()
        for arm, points in _points(result).items():
            at = list(points)
            means, halves = zip(*points.values(), strict=True)
            low = [mean - half for mean, half in zip(means, halves, strict=True)]
            high = [mean + half for mean, half in zip(means, halves, strict=True)]
            add_line(axes, Line(at, means, (low, high)), arm)
        axes.set_xscale("log")
        axes.set_xticks(at, [f"{labels:,}" for labels in at])
        axes.minorticks_off()
        style_axes(axes, "labeled sentences of SST-2", "test accuracy (%), 95 % band", legend=True)
        return render()


def describe(result: dict[str, Any]) -> str:
    points, settings = _points(result), result["settings"]
    labels = list(points[ARMS[0]])
    rows = [
        [arm, *(f"{mean:.1f} ± {half:.1f}" for mean, half in points[arm].values())] for arm in ARMS
    ]
    gains = [_gain(result, each) for each in labels]
    rows.append(
        ["difference, seed by seed", *(f"{gain:+.1f} ± {half:.1f}" for gain, half in gains)]
    )
    blank = [""] * (len(labels) - 1)
    rows += [
        [name, *blank, f"{100 * found['test']:.1f}"] for name, found in result["others"].items()
    ]
    rows += [[name, *blank, score] for name, score in PUBLISHED]
    seeds = len({row["seed"] for row in result["rows"]})
    steps = ", ".join(str(each) for each in dict.fromkeys(row["steps"] for row in result["rows"]))
    before = settings["before"]
    how = before.get("given") or f"{before['steps']:,} steps"
    head = ["test accuracy (%)", *(f"{each:,} labels" for each in labels)]
    return f"""## Does pretraining help?

SST-2 (Socher et al. 2013), whole sentences only, 872 for dev and 1,821 for test. The encoder (D
{settings["dim"]}, {settings["layers"]} layers) is pretrained once ({how}), masked, on the movie
reviews of Pang and Lee (2005) without every sentence of SST-2's dev and test data. Both arms have
the same tokeniser, model, texts and {steps} steps, dropout {settings["dropout"]}; of the learning
rates {" and ".join(map(str, settings["rates"]))} each takes the better on dev, and the weights that
are best on dev. Mean of {seeds} seeds, each with a draw of the labelled sentences of its own; 95 %
interval by Student's t.

{table(head, rows)}

![Accuracy over labels](../images/pretraining.svg)
"""


if __name__ == "__main__":
    main()
