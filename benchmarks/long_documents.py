"""Train decoders on texts of 11,000 tokens and measure their memory.

    python benchmarks/long_documents.py --write

The models generate the lead of the longest articles of WikiText-2 from their bodies. One article is
one batch. Each model is trained in its own process on one thread, from the recipe to the run
folder; its peak memory is that of the kernel. The pairs are written into a temporary folder.
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from report import machine, table, write_results
from shared_data import DATA

ARTICLES = DATA / "wikitext-2" / "train.txt.gz"
SOURCE, SUMMARY = 11_000, 1_000  # tokens
MIN_WORDS = 8_000  # of a body: more tokens than are read
HELD_OUT = 4  # articles
LOSSES = 3  # updates whose mean loss is reported

ALTERNATING = {
    "kind": "alternating",
    "pattern": [{"kind": "block-local", "size": 256}, "compressed"],
}
EXPERTS = {"kind": "moe", "num_experts": 64, "top_k": 2}
MODELS: dict[str, dict[str, Any]] = {
    "memory-compressed attention": {"attention": ALTERNATING},
    "the same, 64 experts": {"attention": ALTERNATING, "feed_forward": EXPERTS, "ffn_dim": 512},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    parser.add_argument("--work", nargs=2, metavar=("MODEL", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], Path(options.work[1]), options.steps)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        result = {"machine": machine(), "articles": write_pairs(folder), "steps": options.steps}
        result["models"] = {name: run(name, folder, options.steps) for name in MODELS}
    section = describe(result)
    print(section)
    if options.write:
        write_results("long_documents", result, section)


def write_pairs(folder: Path) -> dict[str, int]:
    """Write the splits as JSON lines; return the number of articles of each."""
    pairs = [pair for pair in articles() if len(pair[0].split()) > MIN_WORDS]
    splits = {"test": pairs[:HELD_OUT], "dev": pairs[:HELD_OUT], "train": pairs[HELD_OUT:]}
    for split, rows in splits.items():
        lines = [json.dumps({"text": body, "summary": lead}) for body, lead in rows]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {split: len(rows) for split, rows in splits.items()}


def articles() -> Iterator[tuple[str, str]]:
    """Yield the body of each article, from its first heading on, and the lead before it."""
    with gzip.open(ARTICLES, "rt", encoding="utf-8") as file:
        text = file.read()
    for article in re.split(r"\n = [^=\n]+ = \n", text)[1:]:
        lead, heading, body = article.partition("\n = = ")
        yield " ".join((heading + body).split()), " ".join(lead.split()[: SUMMARY // 2])


def run(name: str, folder: Path, steps: int) -> dict[str, float]:
    """Train a model in a process of its own."""
    print(f"{name} …", flush=True)
    command = [sys.executable, __file__, "--work", name, str(folder), "--steps", str(steps)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    print(json.dumps(result), flush=True)
    return result


def work(name: str, folder: Path, steps: int) -> None:
    """Train a model in this process and print the result as the last line."""
    import resource

    import torch

    from regard.run_folder import read
    from regard.training.recipe import make_recipe
    from regard.training.trainer import train

    torch.set_num_threads(1)
    run_folder = folder / str(list(MODELS).index(name))
    recipe = make_recipe(recipe_of(name, folder, steps), (), "benchmark")
    train(recipe, run_folder)
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "grad_norm" in line]
    losses = [line["loss"] for line in updates]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {
        "parameters": sum(weight.numel() for weight in read(run_folder).weights.values()),
        "peak": peak,
        "first_loss": mean(losses[:LOSSES]),
        "last_loss": mean(losses[-LOSSES:]),
    }
    print(json.dumps(result))


def recipe_of(name: str, folder: Path, steps: int) -> dict[str, Any]:
    """Return the recipe of a model."""

    def source(split: str) -> dict[str, Any]:
        keys = {"keys": ["text", "summary"], "languages": ["text", "summary"]}
        return {"kind": "jsonl", "path": str(folder / f"{split}.jsonl"), **keys}

    sizes = {"dim": 256, "ffn_dim": 1024, "heads": 4, "layers": 5}
    return {
        "task": {"kind": "summarization", "source": SOURCE},
        "data": {
            **{split: source(split) for split in ("train", "dev", "test")},
            "prepared": str(folder / "prepared"),
            "filters": {"max_ratio": 1000, "max_characters": 1_000_000},
        },
        "tokenizer": {"kind": "bpe", "vocabulary": 8000},
        "model": {
            "kind": "decoder-only",
            **sizes,
            "max_length": SOURCE + 2 * SUMMARY,
            **MODELS[name],
        },
        "training": {
            "steps": steps,
            "batch_tokens": SOURCE + 2 * SUMMARY,
            "evaluation": {"metric": "loss", "every": steps},
        },
    }


def describe(result: dict[str, Any]) -> str:
    """Return the section of the page."""
    rows = [
        [
            name,
            f"{model['parameters'] / 1e6:.1f} M",
            f"{model['peak'] / 1e9:.2f} GB",
            f"{model['first_loss']:.2f} → {model['last_loss']:.2f}",
        ]
        for name, model in result["models"].items()
    ]
    return f"""## Texts of {SOURCE:,} tokens

Decoder-only models, D 256, 5 layers, that generate the leads of Wikipedia's longest articles
({result["articles"]["train"]} of WikiText-2 with more than {MIN_WORDS:,} words) from the first
{SOURCE:,} tokens of their bodies; {result["steps"]} updates of one article each on one thread.
Memory is the peak of the process, including preparation, optimizer and evaluation.

{table(["", "parameters", "memory", "loss, mean of first → last three updates"], rows)}
"""


if __name__ == "__main__":
    main()
