"""Evaluate French ↔ English translators on test sets of several domains.

    python benchmarks/french_english.py --write
    python benchmarks/french_english.py --run "recurrent=runs/fr-en-recurrent" --write
    python benchmarks/french_english.py --variant "float32=runs/fr-en" --write

The pretrained model is evaluated beside the runs that are named; with --keep FOLDER, scores in
FOLDER/NAME.json are reused, so that a long evaluation resumes. BLEU of cased, detokenized text
with its bootstrap interval; the accuracy on contrastive pairs of pronouns, where the model should
give the right translation the higher probability. Variants are evaluated on two test sets only.
"""

import argparse
import gzip
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import regard
from regard.atomic import write_atomic
from regard.config import validate
from regard.data.records import Record
from regard.data.sources.base import SourceSpec
from regard.evaluation.bootstrap import confidence
from regard.predictors.translator import Translator
from report import machine, table, write_results
from shared_data import DATA

PRETRAINED = "pretrained"
BEAM = 4
STARTS, LINES = 7, 10_000  # of the measurements of speed
# Title, data set, split, and the only direction that its references allow, if any.
TEST_SETS: list[tuple[str, str, str, str | None]] = [
    ("Tatoeba test, everyday sentences", "tatoeba-fr-en", "test", None),
    ("Wesnoth test, a game's dialogues", "wesnoth-fr-en", "test", None),
    ("Debian test, package descriptions", "debian-fr-en", "test", None),
    ("FLORES-200 dev, encyclopedic", "flores200", "dev", None),
    ("Multi30k test 2016, captions", "multi30k", "test", None),
    ("newstest2013, news", "news-fr-en", "newstest2013", None),
    ("TICO-19 test, medicine", "tico19-fr-en", "test", None),
    ("DiaBLa, dialogues as typed in French", "diabla-en-fr", "fr-en", "en"),
    ("DiaBLa, dialogues as typed in English", "diabla-en-fr", "en-fr", "fr"),
]
VARIANT_SETS = [TEST_SETS[0], TEST_SETS[3]]
PRONOUNS = DATA / "discourse-en-fr" / "contrapro.tsv.gz"
INTRODUCTION = """## French ↔ English, the pretrained model

BLEU of cased, detokenized text with its 95 % interval by bootstrap (sacrebleu,
{signature}), a beam of {beam}. Of the first three corpora other texts were in the training data;
none of the sentences of a test set was, but for
[texts of fewer than 24 letters](pretrained-model.md#data-set-by-set), as greetings. Pronouns: the
accuracy on contrastive pairs of subtitles (Lopes et al. 2020), which differ in *il* and *elle*,
*ils* and *elles*; the sentence before, which has the noun, is not shown to the models, so that
50 % is chance. A cold `regard translate fr-en` of
one sentence takes {start:.2f} s, {lines:,} everyday sentences take {seconds:.1f} s, and
{greedy_seconds:.1f} s with greedy decoding (`--beam 1`), loading included. {machine}."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", action="append", default=[], help="another model: NAME=FOLDER")
    parser.add_argument("--variant", action="append", default=[], help="a variant: NAME=FOLDER")
    parser.add_argument("--pretrained", default="fr-en", help="run folder of the first model")
    parser.add_argument("--limit", type=int, help="lines of each test set")
    parser.add_argument("--keep", type=Path, help="folder of scores, which are reused")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    runs = {PRETRAINED: options.pretrained, **dict(run.split("=", 1) for run in options.run)}
    speed = _speed(options.pretrained)
    models = {name: _evaluate(name, folder, options) for name, folder in runs.items()}
    result = {"machine": machine(), "beam": BEAM, "speed": speed, "models": models}
    result["variants"] = _variants(options.pretrained, options.variant, options.limit)
    section = describe(result)
    print(section)
    if options.write:
        write_results("french_english", result, section)


def _speed(run: str) -> dict[str, float]:
    """Measure a cold start and the time of many lines, as commands of their own."""
    command = [sys.executable, "-m", "regard", "translate", run, "--to", "en"]
    starts = [_seconds([*command, "Je voudrais un café, s'il vous plaît."]) for _ in range(STARTS)]
    with tempfile.TemporaryDirectory() as folder:
        lines = [
            source for source, _ in islice(_pairs("tatoeba-fr-en", "train", "en"), 0, None, 16)
        ]
        file = Path(folder) / "lines.txt"
        file.write_text("".join(f"{line}\n" for line in lines[:LINES]), encoding="utf-8")
        seconds = _seconds([*command, str(file)])
        greedy_seconds = _seconds([*command, str(file), "--beam", "1"])
    return {
        "cold_start": statistics.median(starts),
        "lines": LINES,
        "seconds": seconds,
        "greedy_seconds": greedy_seconds,
    }


def _seconds(command: list[str]) -> float:
    before = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - before


def _evaluate(name: str, folder: str, options: argparse.Namespace) -> dict[str, Any]:
    translator = regard.load_translator(folder)
    path = options.keep / f"{name}.json" if options.keep else None
    result = {"bleu": {}} if path is None or not path.exists() else json.loads(path.read_text())

    def keep() -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, json.dumps(result).encode())

    for test_set, score in _bleu(name, translator, TEST_SETS, options.limit, BEAM, result["bleu"]):
        result["bleu"][test_set] = score
        keep()
    if "pronouns" not in result:
        result["pronouns"] = _pronouns(translator, options.limit)
        keep()
    return result


def _variants(pretrained: str, named: list[str], limit: int | None) -> dict[str, Any]:
    """Evaluate the pretrained model with and without beam search, and variants of it."""
    folders = {PRETRAINED: pretrained, **dict(variant.split("=", 1) for variant in named)}
    variants = {(f"{name}, a beam of {BEAM}", BEAM): folder for name, folder in folders.items()}
    variants |= {(f"{PRETRAINED}, greedy", 1): pretrained}
    return {
        name: dict(_bleu(name, regard.load_translator(folder), VARIANT_SETS, limit, beam))
        for (name, beam), folder in variants.items()
    }


def _bleu(
    name: str,
    translator: Translator,
    test_sets: list[tuple[str, str, str, str | None]],
    limit: int | None,
    beam: int,
    known: Container[str] = (),
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield BLEU on each test set, in its directions, but for those that are known."""
    for title, dataset, split, only in test_sets:
        for to in (only,) if only else ("en", "fr"):
            if f"{title} → {to}" in known:
                continue
            pairs = list(_pairs(dataset, split, to))[:limit]
            sources, references = zip(*pairs, strict=True)
            outputs = translator.translate(sources, to, beam=beam)
            score = confidence(references=list(references), outputs=outputs)
            print(f"{name}: {title} → {to}: {score.bleu:.1f} ± {score.margin:.1f}", flush=True)
            yield (
                f"{title} → {to}",
                {
                    "bleu": score.bleu,
                    "margin": score.margin,
                    "signature": score.signature,
                    "pairs": len(pairs),
                },
            )


def _pairs(dataset: str, split: str, to: str) -> Iterator[tuple[str, str]]:
    """Yield the sources and references of a test set in one direction."""
    settings = {"kind": "dataset", "name": dataset, "split": split, "languages": ["fr", "en"]}
    if dataset == "diabla-en-fr":
        settings["languages"] = ["en", "fr"]
    source = validate(SourceSpec, settings, "test set")
    target = source.language_pair.index(to)
    for line in source.records():
        if isinstance(line, Record):
            yield line.texts[1 - target], line.texts[target]


def _pronouns(translator: Translator, limit: int | None) -> dict[str, float]:
    """Return how often the right pronoun is more probable, with the margin of a 95 % interval."""
    with gzip.open(PRONOUNS, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t")[2:5] for line in lines][:limit]
    sources, right, wrong = zip(*rows, strict=True)
    totals = [
        [score.total for score in translator.score(sources, targets, "fr")]
        for targets in (right, wrong)
    ]
    accuracy = sum(one > other for one, other in zip(*totals, strict=True)) / len(rows)
    margin = 1.96 * math.sqrt(accuracy * (1 - accuracy) / len(rows))
    return {"accuracy": accuracy, "margin": margin, "pairs": len(rows)}


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    models: dict[str, Any] = result["models"]
    first = models[PRETRAINED]["bleu"]
    rows = [
        [name, *(_shown(model["bleu"][name]) for model in models.values()), f"{score['pairs']:,}"]
        for name, score in first.items()
    ]
    pronouns = [model["pronouns"] for model in models.values()]
    shown = [f"{each['accuracy']:.1%} ± {each['margin']:.1%}" for each in pronouns]
    rows.append(["pronouns, English → French, accuracy", *shown, f"{pronouns[0]['pairs']:,}"])
    introduction = INTRODUCTION.format(
        signature=next(iter(first.values()))["signature"],
        beam=result["beam"],
        start=result["speed"]["cold_start"],
        lines=result["speed"]["lines"],
        seconds=result["speed"]["seconds"],
        greedy_seconds=result["speed"]["greedy_seconds"],
        machine=f"{result['machine']['cpu']}, torch {result['machine']['torch']}",
    )
    variants = result["variants"]
    sets = list(next(iter(variants.values())))
    variant_rows = [
        [name, *(_shown(scores[each]) for each in sets)] for name, scores in variants.items()
    ]
    return "\n\n".join(
        [
            introduction,
            table(["test set", *models, "pairs"], rows),
            "Variants of the model and of its decoding:",
            table(["variant", *sets], variant_rows),
            "",
        ]
    )


def _shown(score: dict[str, float]) -> str:
    return f"{score['bleu']:.1f} ± {score['margin']:.1f}"


if __name__ == "__main__":
    main()
