"""From a long text to a short one: the rows of the lecture's table, all under one budget.

    python benchmarks/documents.py --minutes 7 --keep runs/documents --write

Each row is a recipe (recipes/documents-*.yaml) that is trained for the same time on one thread, in
a process of its own, two at a time, on the same data with the same tokeniser, and reads the same
number of tokens of a text. Its best weights on dev are scored on test: perplexity of the summaries'
tokens, and ROUGE-L of summaries, greedy and by a beam that may not repeat itself: a model that has
learned little falls into loops when it is greedy. The first sentence of each text stands beside
them. Rows whose runs are in the folder of --keep are not trained again.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report import keep, machine, table

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data"
AT_ONCE = 2
LEAD = "first sentence of the text"
BEAM, NO_REPEAT = 4, 3
# Recipe, and what the lecture's table says: perplexity and ROUGE-L on WikiSum, and tokens read.
ROWS: Mapping[str, tuple[str, float, float, int]] = {
    "seq2seq with attention": ("seq2seq", 5.05, 12.7, 500),
    "Transformer encoder-decoder": ("transformer", 2.47, 34.2, 500),
    "decoder only": ("decoder", 2.22, 33.6, 4_000),
    "with memory-compressed attention": ("memory", 2.05, 36.2, 11_000),
    "and experts (there 128, here 8)": ("experts", 1.93, 37.9, 11_000),
    "and more experts (there 256, here 32)": ("more-experts", 1.90, 38.8, 7_500),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=7, help="of training, each row")
    parser.add_argument("--steps", type=int, help="updates of each row, instead of minutes")
    parser.add_argument("--data", choices=list(CHANGES), default="debian-summaries")
    parser.add_argument("--keep", type=Path, help="a folder for runs, used again where there")
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = (options.keep or Path(folder)).absolute()
        home.mkdir(parents=True, exist_ok=True)
        result = measured(options, home)
    section = shown(result)
    print(section)
    if options.write:
        keep("documents", result, section)


def measured(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    changes = [*CHANGES[options.data], f"data.prepared={home / 'prepared'}"]
    test = prepared("transformer", changes)  # the data that all rows share
    budget = f"{options.steps}-steps" if options.steps else f"{options.minutes:g}-minutes"
    spent = [f"training.budget={options.minutes}min"]
    if options.steps:
        spent = ["training.budget=null", f"training.steps={options.steps}"]

    def row(name: str) -> dict[str, Any]:
        recipe = ROWS[name][0]
        return trained(recipe, home / f"{options.data}-{budget}-{recipe}", [*changes, *spent])

    with ThreadPoolExecutor(AT_ONCE) as several:
        rows = dict(zip(ROWS, several.map(row, ROWS), strict=True))
    for name, each in rows.items():
        run = home / f"{options.data}-{budget}-{ROWS[name][0]}"
        each["beam"] = by_beam(run, test)
        say(f"{name} is scored")
    return {
        "machine": machine(),
        "data": options.data,
        "budget": budget.replace("-", " "),
        "rows": rows,
        "lead": leading(test),
    }


def trained(recipe: str, run: Path, changes: Sequence[str]) -> dict[str, Any]:
    """What the run of a recipe says of itself, once it is trained."""
    description = run / "model.json"
    if not description.exists():
        command = [sys.executable, "-m", "regard", "train", _recipe(recipe), *changes]
        command += ["--run", str(run), "--overwrite"]
        done = subprocess.run(command, cwd=ROOT, env=_one_thread(), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{recipe} failed:\n{done.stderr[-2000:]}")
        say(f"{recipe} is trained")
    details = json.loads(description.read_text("utf-8"))["details"]
    training, scores = details["training"], details["scores"]
    return {
        "parameters": details["parameters"],
        "read": details["truncate_source"],
        "steps": training["step"],
        "seconds": training["elapsed_seconds"],
        "words": training["target_tokens"],
        **{key: scores[key] for key in ("perplexity", "rouge1", "rouge2", "rouge_l")},
        "signature": scores["signatures"]["rouge_l"],
        "texts": scores["texts"],
    }


def prepared(recipe: str, changes: Sequence[str]) -> Any:
    """The test texts and their references."""
    from regard.training.distributed.world import World
    from regard.training.recipe import read_recipe
    from regard.training.reporting.progress import silent
    from regard.training.trainer import prepare_data

    os.chdir(ROOT)
    found = prepare_data(read_recipe(Path(_recipe(recipe)), changes), World(), silent).test
    assert found is not None
    return found


def leading(test: Any) -> dict[str, float]:
    """ROUGE of the first sentence of each text."""
    return _rouge([re.split(r"(?<=[.!?])\s", text)[0] for text in test.texts(0)], test)


def by_beam(run: Path, test: Any) -> dict[str, float]:
    """ROUGE of summaries that are searched for and do not repeat themselves."""
    from regard.decoding.config import DecodingConfig
    from regard.loading import load_summarizer

    search = DecodingConfig(beam=BEAM, no_repeat_ngram=NO_REPEAT)
    return _rouge(load_summarizer(run).summarize(list(test.texts(0)), decoding=search), test)


def _rouge(summaries: Sequence[str], test: Any) -> dict[str, float]:
    from regard.evaluation.texts import score_summaries

    return score_summaries(summaries, list(test.references())).values


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _recipe(name: str) -> str:
    return f"recipes/documents-{name}.yaml"


def _one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}


def _scitldr() -> list[str]:
    parts = {
        part: {
            "kind": "jsonl",
            "path": str(SHARED / "scitldr" / f"{part}.jsonl.gz"),
            "keys": ["source", "target"],
            "lists": ["sentences", "versions"],
            "languages": ["text", "summary"],
        }
        for part in ("train", "dev", "test")
    }
    data = {**parts, "filters": {"max_ratio": 200}}
    longer = ["task.source=320", "model.max_length=512", "tokenizer.vocabulary=4000"]
    return [f"data={json.dumps(data)}", *longer]


# What a row's recipe is given besides, by data.
CHANGES: Mapping[str, Sequence[str]] = {"debian-summaries": [], "scitldr": _scitldr()}

WHAT = {
    "debian-summaries": "Short descriptions of Debian packages from the long ones (each under its "
    "package's own free licence), packages of one program in one share",
    "scitldr": "SciTLDR (Cachola et al. 2020, Apache 2.0): one sentence from an abstract, the best "
    "of several references",
}


def shown(result: Mapping[str, Any]) -> str:
    lead = f"{result['lead']['rouge_l']:.1f}"
    rows = [[LEAD, "", "", "", "", lead, lead, "", ""]]
    for name, each in result["rows"].items():
        _, perplexity, rouge, read = ROWS[name]
        ours = [f"{each['perplexity']:.2f}", f"{each['rouge_l']:.1f}"]
        ours += [f"{each['beam']['rouge_l']:.1f}"]
        sizes = [f"{each['read']:,}", f"{each['parameters'] / 1e6:.2f} M", f"{each['steps']:,}"]
        rows.append([name, *sizes, *ours, f"{perplexity} / {rouge}", f"{read:,}"])
    first = next(iter(result["rows"].values()))
    head = ["", "tokens read", "parameters", "steps", "perplexity", "ROUGE-L", "by beam"]
    lecture = ["lecture: perplexity / ROUGE-L", "read there"]
    best = min(result["rows"], key=lambda name: result["rows"][name]["perplexity"])
    highest = max(result["rows"], key=lambda name: result["rows"][name]["beam"]["rouge_l"])
    return f"""## Documents

{WHAT[result["data"]]}; {first["texts"]:,} test texts. Every row had {result["budget"]} of training
on one thread, the same data and tokeniser; perplexity is of a token of the (first) reference, ROUGE
of greedy summaries, and by a beam of {BEAM} in which no {NO_REPEAT} tokens come twice
({first["signature"]}). Greedy, a model that has learned little falls into loops. The lecture's
figures are of WikiSum with far larger models (Liu et al. 2018): their order is to be compared, not
their size.

{table([*head, *lecture], rows)}

Here the lowest perplexity is that of *{best}*, the highest ROUGE-L by
beam that of *{highest}*."""


if __name__ == "__main__":
    main()
