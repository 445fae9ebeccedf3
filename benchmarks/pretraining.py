"""Compare classifiers from scratch and from a pretrained encoder, with few labels and with all.

    python benchmarks/pretraining.py --keep results/ --write

An encoder is pretrained once as a masked language model on movie reviews without labels, from which
every dev and test sentence of SST-2 is excluded. Then, with 100, 1,000 and all labels of SST-2 and
three seeds each, one classifier is trained from scratch and one from that encoder, with the same
tokenizer, model, texts, steps, batches and learning rates. Learning rate and weights are selected
by dev accuracy, by the same rule for both; the accuracy on test is reported. Results are stored and
reused. The script takes about half an hour on two cores.
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
from report import DOCS, machine, table, write_results
from shared_data import DATA

ARMS = ("from scratch", "pretrained")
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}  # 95 % quantiles of Student's t by seeds
MODEL = {"dim": 128, "heads": 4, "ffn_dim": 512, "layers": 2, "max_length": 128}
PUBLISHED = [["convolutional, random vectors (Kim 2014, trained on phrases)", "82.7"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pretraining", type=int, default=3000, help="pretraining steps")
    parser.add_argument("--mask-rate", type=float, default=0.3, help="fraction of masked tokens")
    parser.add_argument("--labels", type=int, nargs="*", default=[100, 1000, 6920])
    parser.add_argument(
        "--steps", type=int, nargs="*", default=[60, 120, 200], help="one for each of --labels"
    )
    parser.add_argument("--rates", type=float, nargs="*", default=[0.002, 0.008])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--init", type=Path, help="run folder of a pretrained model")
    parser.add_argument("--minilm", type=Path, help="run folder of all-MiniLM-L6-v2")
    parser.add_argument("--minilm-steps", type=int, default=60)
    parser.add_argument("--zero-shot", type=Path, help="run folder of a language model")
    parser.add_argument("--keep", type=Path, help="folder of results to reuse")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    if len(options.labels) != len(options.steps):
        sys.exit("give as many --steps as --labels")
    with tempfile.TemporaryDirectory() as folder:
        results = options.keep or Path(folder)
        results.mkdir(parents=True, exist_ok=True)
        result = measure(Store(results, options))
    section = describe(result)
    print(section)
    if options.write:
        write_results("pretraining", result, section)
        (DOCS / "images" / "pretraining.svg").write_text(draw(result), encoding="utf-8")


class Store:
    """The folder of results, and the options of the benchmark."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options

    def cached(self, name: str, compute: Any) -> dict[str, Any]:
        """Return a result by name, stored by an earlier call or computed now."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            start = time.perf_counter()
            content = {**compute(), "seconds": time.perf_counter() - start}
            path.write_text(json.dumps(content), encoding="utf-8")
        result: dict[str, Any] = json.loads(path.read_text("utf-8"))
        print(f"{name}: {result}", file=sys.stderr, flush=True)
        return result


def measure(store: Store) -> dict[str, Any]:
    options = store.options
    pretrained = options.init or store.folder / "masked"
    pretraining = store.cached("pretraining", lambda: _pretrain(pretrained, options, store.folder))
    rows = [
        {"labels": labels, "steps": steps, "arm": arm, "seed": seed, **scores}
        for labels, steps in zip(options.labels, options.steps, strict=True)
        for seed in range(1, options.seeds + 1)
        for arm in ARMS
        for scores in [_best(store, pretrained, labels, steps, seed, arm)]
    ]
    others = dict(_others(store))
    settings = {**MODEL, "dropout": options.dropout, "rates": options.rates}
    settings["pretraining"] = pretraining
    return {"machine": machine(), "settings": settings, "rows": rows, "others": others}


def _pretrain(folder: Path, options: argparse.Namespace, store: Path) -> dict[str, Any]:
    if options.init is not None:
        return {"run": str(options.init)}
    reviews = DATA / "movie-reviews"
    paths = [str(reviews / f"rt-polarity.{side}") for side in ("pos", "neg")]
    content = {
        "task": {"kind": "masked-lm", "mask_rate": options.mask_rate},
        "data": {
            "train": {"kind": "text", "path": paths, "documents": "line"},
            "exclude": [_source("dev.tsv"), _source("test.tsv")],
            "dev_size": 300,
            "prepared": str(store / "prepared"),
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
    store: Store, pretrained: Path, labels: int, steps: int, seed: int, arm: str
) -> dict[str, Any]:
    """Return the run with the learning rate that is best on dev."""
    runs = []
    for rate in store.options.rates:
        changes = {} if arm == "from scratch" else {"init": str(pretrained)}
        tokenizer = {"kind": "file", "path": str(pretrained)}
        content = _recipe(store, labels, steps, seed, rate)
        content |= {"tokenizer": tokenizer, "model": {"kind": "classifier", **MODEL}} | changes
        content["model"] |= {"dropout": store.options.dropout}
        name = f"{arm.replace(' ', '-')}-{labels}-seed{seed}-rate{rate:g}"
        runs.append({"rate": rate} | store.cached(name, lambda: _classifier(store, content)))  # noqa: B023
    return max(runs, key=lambda run: run["dev"])


def _recipe(store: Store, labels: int, steps: int, seed: int, rate: float) -> dict[str, Any]:
    """Return the recipe without its model."""
    sample = store.folder / f"train-{labels}-{seed}.tsv"
    lines = (DATA / "sst2" / "train.tsv").read_text("utf-8").splitlines(keepends=True)
    few = random.Random(seed).sample(lines, min(labels, len(lines)))
    sample.write_text("".join(few), encoding="utf-8")
    return {
        "task": "classification",
        "data": {
            "train": {"kind": "labeled", "path": str(sample)},
            "dev": _source("dev.tsv"),
            "test": _source("test.tsv"),
            "prepared": str(store.folder / "prepared"),
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


def _classifier(store: Store, content: dict[str, Any]) -> dict[str, Any]:
    folder = store.folder / "classifier"
    train(make_recipe(content, (), "classifier"), folder, overwrite=True)
    details = json.loads((folder / "model.json").read_text("utf-8"))["details"]
    return {"dev": details["training"]["best"], "test": details["scores"]["accuracy"]}


def _others(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield further results: a published pretrained encoder, a zero-shot language model."""
    options = store.options
    if options.minilm is not None:
        content = _recipe(store, max(options.labels), options.minilm_steps, 1, 0.001)
        content["init"] = str(options.minilm)
        yield (
            f"all-MiniLM-L6-v2 (Wang et al. 2020), fine-tuned for {options.minilm_steps} steps",
            store.cached("minilm", lambda: _classifier(store, content)),
        )
    if options.zero_shot is not None:
        name = f"zero-shot, {options.zero_shot.name}"
        yield name, store.cached("zero-shot", lambda: _zero_shot(options.zero_shot))


def _zero_shot(folder: Path) -> dict[str, Any]:
    from regard.loading import load_language_model
    from regard.predictors.zero_shot import ZeroShotClassifier

    classifier = ZeroShotClassifier(
        load_language_model(folder), "{text} It was", {"1": " great", "0": " terrible"}
    )
    lines = (DATA / "sst2" / "test.tsv").read_text("utf-8").splitlines()
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    predictions = classifier.classify(texts)
    pairs = zip(predictions, labels, strict=True)
    return {"test": sum(one.label == label for one, label in pairs) / len(labels)}


def _points(result: dict[str, Any]) -> dict[str, dict[int, tuple[float, float]]]:
    """Return mean accuracy over seeds in percent and half its 95 % interval, by arm and labels."""
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
    """Return the gain by pretraining and half its interval; seeds are paired: same texts."""
    rows = [row for row in result["rows"] if row["labels"] == labels]
    by_arm = {arm: {row["seed"]: row["test"] for row in rows if row["arm"] == arm} for arm in ARMS}
    scratch, pretrained = (by_arm[arm] for arm in ARMS)
    return _interval([100 * (pretrained[seed] - scratch[seed]) for seed in scratch])


def _interval(scores: list[float]) -> tuple[float, float]:
    """Return the mean and half its 95 % interval."""
    half = 0.0
    if len(scores) > 1:
        spread = statistics.stdev(scores) / len(scores) ** 0.5
        half = STUDENT.get(len(scores), 2.571) * spread
    return statistics.mean(scores), half


def draw(result: dict[str, Any]) -> str:
    """Draw test accuracy over the number of labels."""
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
    """Return the section of the page."""
    points, settings = _points(result), result["settings"]
    labels = list(points[ARMS[0]])
    rows = [
        [arm, *(f"{mean:.1f} ± {half:.1f}" for mean, half in points[arm].values())] for arm in ARMS
    ]
    gains = [_gain(result, count) for count in labels]
    rows.append(["paired difference", *(f"{gain:+.1f} ± {half:.1f}" for gain, half in gains)])
    blank = [""] * (len(labels) - 1)
    rows += [
        [name, *blank, f"{100 * scores['test']:.1f}"] for name, scores in result["others"].items()
    ]
    rows += [[name, *blank, score] for name, score in PUBLISHED]
    seeds = len({row["seed"] for row in result["rows"]})
    steps = ", ".join(str(count) for count in dict.fromkeys(row["steps"] for row in result["rows"]))
    pretraining = settings["pretraining"]
    source = pretraining.get("run") or f"{pretraining['steps']:,} steps"
    head = ["test accuracy (%)", *(f"{count:,} labels" for count in labels)]
    return f"""## Does pretraining help?

SST-2 (Socher et al. 2013), whole sentences only, 872 for dev and 1,821 for test. The encoder (D
{settings["dim"]}, {settings["layers"]} layers) is pretrained once ({source}) as a masked language
model on the movie reviews of Pang and Lee (2005), without the sentences of SST-2's dev and test
data. Both arms have the same tokenizer, model, texts and {steps} steps, dropout
{settings["dropout"]}; learning rate ({" or ".join(map(str, settings["rates"]))}) and weights
are those that are best on dev. Mean of {seeds} seeds, each with its own sample of the labeled
sentences; 95 % interval by Student's t.

{table(head, rows)}

![Accuracy over labels](../images/pretraining.svg)
"""


if __name__ == "__main__":
    main()
