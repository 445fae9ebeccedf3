"""Compare the summarization models of the lecture's table under one time budget.

    python benchmarks/documents.py --minutes 7 --keep runs/documents --write

Each row is a recipe (recipes/documents-*.yaml) that is trained for the same time on one thread, in
its own process, two at a time, on the same data with the same tokenizer, and reads the same number
of tokens of a text. The weights that are best on dev are evaluated on test: perplexity per token of
the summaries, and ROUGE-L with greedy decoding and with a beam search without repeated n-grams
(undertrained models repeat themselves with greedy decoding). The first sentence of each text is the
baseline. Runs in the folder of --keep are not trained again.
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

from report import machine, table, write_results
from shared_data import DATA

ROOT = Path(__file__).parent.parent
PROCESSES = 2
LEAD = "first sentence of the text"
BEAM, NO_REPEAT = 4, 3
# Recipe, and the lecture's table: perplexity and ROUGE-L on WikiSum, and tokens read.
ROWS: Mapping[str, tuple[str, float, float, int]] = {
    "seq2seq with attention": ("seq2seq", 5.05, 12.7, 500),
    "Transformer encoder-decoder": ("transformer", 2.47, 34.2, 500),
    "decoder only": ("decoder", 2.22, 33.6, 4_000),
    "with memory-compressed attention": ("memory", 2.05, 36.2, 11_000),
    "and experts (paper 128, here 8)": ("experts", 1.93, 37.9, 11_000),
    "and more experts (paper 256, here 32)": ("more-experts", 1.90, 38.8, 7_500),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=7, help="training time of each row")
    parser.add_argument("--steps", type=int, help="updates of each row instead of a time")
    parser.add_argument("--data", choices=list(CHANGES), default="debian-summaries")
    parser.add_argument("--keep", type=Path, help="folder of runs to reuse")
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = (options.keep or Path(folder)).absolute()
        runs.mkdir(parents=True, exist_ok=True)
        result = measure(options, runs)
    section = describe(result)
    print(section)
    if options.write:
        write_results("documents", result, section)


def measure(options: argparse.Namespace, runs: Path) -> dict[str, Any]:
    """Train and evaluate all rows."""
    changes = [*CHANGES[options.data], f"data.prepared={runs / 'prepared'}"]
    test = test_data("transformer", changes)  # the same for all rows
    budget = f"{options.steps}-steps" if options.steps else f"{options.minutes:g}-minutes"
    duration = [f"training.budget={options.minutes}min"]
    if options.steps:
        duration = ["training.budget=null", f"training.steps={options.steps}"]

    def row(name: str) -> dict[str, Any]:
        recipe = ROWS[name][0]
        return trained(recipe, runs / f"{options.data}-{budget}-{recipe}", [*changes, *duration])

    with ThreadPoolExecutor(PROCESSES) as pool:
        rows = dict(zip(ROWS, pool.map(row, ROWS), strict=True))
    for name, scores in rows.items():
        run = runs / f"{options.data}-{budget}-{ROWS[name][0]}"
        scores["beam"] = beam_search_rouge(run, test)
        log(f"{name}: evaluated")
    return {
        "machine": machine(),
        "data": options.data,
        "budget": budget.replace("-", " "),
        "rows": rows,
        "lead": first_sentence_rouge(test),
    }


def trained(recipe: str, run: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Train a recipe unless its run is there; return its sizes and scores."""
    manifest = run / "model.json"
    if not manifest.exists():
        command = [sys.executable, "-m", "regard", "train", _recipe(recipe), *changes]
        command += ["--run", str(run), "--overwrite"]
        done = subprocess.run(command, cwd=ROOT, env=_one_thread(), capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{recipe} failed:\n{done.stderr[-2000:]}")
        log(f"{recipe}: trained")
    details = json.loads(manifest.read_text("utf-8"))["details"]
    training, scores = details["training"], details["scores"]
    return {
        "parameters": details["parameters"],
        "read": details["truncate_source"],
        "steps": training["step"],
        "seconds": training["elapsed_seconds"],
        "tokens": training["target_tokens"],
        **{key: scores[key] for key in ("perplexity", "rouge1", "rouge2", "rouge_l")},
        "signature": scores["signatures"]["rouge_l"],
        "texts": scores["texts"],
    }


def test_data(recipe: str, changes: Sequence[str]) -> Any:
    """Return the test texts and their references."""
    from regard.training.distributed.world import World
    from regard.training.recipe import read_recipe
    from regard.training.reporting.progress import silent
    from regard.training.trainer import prepare_data

    os.chdir(ROOT)
    test = prepare_data(read_recipe(Path(_recipe(recipe)), changes), World(), silent).test
    assert test is not None
    return test


def first_sentence_rouge(test: Any) -> dict[str, float]:
    """Return the ROUGE of the first sentence of each text."""
    return _rouge([re.split(r"(?<=[.!?])\s", text)[0] for text in test.texts(0)], test)


def beam_search_rouge(run: Path, test: Any) -> dict[str, float]:
    """Return the ROUGE of beam search without repeated n-grams."""
    from regard.decoding.config import DecodingConfig
    from regard.loading import load_summarizer

    decoding = DecodingConfig(beam=BEAM, no_repeat_ngram=NO_REPEAT)
    return _rouge(load_summarizer(run).summarize(list(test.texts(0)), decoding=decoding), test)


def _rouge(summaries: Sequence[str], test: Any) -> dict[str, float]:
    from regard.evaluation.texts import score_summaries

    return score_summaries(summaries, list(test.references())).values


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _recipe(name: str) -> str:
    return f"recipes/documents-{name}.yaml"


def _one_thread() -> dict[str, str]:
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "REGARD_DATA": str(DATA)}
    return {**os.environ, **own}


def _scitldr() -> list[str]:
    splits = {
        split: {"kind": "dataset", "name": "scitldr", "split": split}
        for split in ("train", "dev", "test")
    }
    data = {**splits, "filters": {"max_ratio": 200}}
    longer = ["task.source=320", "model.max_length=512", "tokenizer.vocabulary=4000"]
    return [f"data={json.dumps(data)}", *longer]


# Overrides of the recipes, by data.
CHANGES: Mapping[str, Sequence[str]] = {"debian-summaries": [], "scitldr": _scitldr()}

DESCRIPTIONS = {
    "debian-summaries": "Short descriptions of Debian packages from the long ones (each under its "
    "package's own free license), all packages of one program in one split",
    "scitldr": "SciTLDR (Cachola et al. 2020, Apache 2.0): one sentence from an abstract, the best "
    "of several references",
}


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    lead = f"{result['lead']['rouge_l']:.1f}"
    rows = [[LEAD, "", "", "", "", lead, lead, "", ""]]
    for name, row in result["rows"].items():
        _, perplexity, rouge, read = ROWS[name]
        scores = [f"{row['perplexity']:.2f}", f"{row['rouge_l']:.1f}"]
        scores += [f"{row['beam']['rouge_l']:.1f}"]
        sizes = [f"{row['read']:,}", f"{row['parameters'] / 1e6:.2f} M", f"{row['steps']:,}"]
        rows.append([name, *sizes, *scores, f"{perplexity} / {rouge}", f"{read:,}"])
    first = next(iter(result["rows"].values()))
    head = ["", "tokens read", "parameters", "steps", "perplexity", "ROUGE-L", "ROUGE-L, beam"]
    lecture = ["lecture: perplexity / ROUGE-L", "lecture: tokens read"]
    best = min(result["rows"], key=lambda name: result["rows"][name]["perplexity"])
    highest = max(result["rows"], key=lambda name: result["rows"][name]["beam"]["rouge_l"])
    return f"""## Summarization of documents

{DESCRIPTIONS[result["data"]]}; {first["texts"]:,} test texts. Every row was trained for
{result["budget"]} on one thread with the same data and tokenizer; perplexity is per token of the
(first) reference, ROUGE is that of greedy decoding and of beam search with width {BEAM} and no
repeated {NO_REPEAT}-grams ({first["signature"]}). With greedy decoding, undertrained models repeat
themselves. The lecture's figures are on WikiSum with much larger models (Liu et al. 2018): compare
their order, not their size.

{table([*head, *lecture], rows)}

The lowest perplexity is that of *{best}*, the highest ROUGE-L with beam search that of
*{highest}*."""


if __name__ == "__main__":
    main()
