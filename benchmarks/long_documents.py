"""Does a decoder learn from texts of 11,000 tokens on one machine, and in how much memory?

    python benchmarks/long_documents.py --write

The longest articles of WikiText-2, of which the body is read and the lead written: what Wikipedia
says first, from what it says then. One article is one batch. Each way of looking is trained from
the recipe to the run folder in a process of its own, one thread, and its peak memory is the
kernel's figure. The articles stay where they are: the pairs are written into a temporary folder.
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

from report import keep, machine, table

ARTICLES = Path(__file__).parents[2] / "shared/data/wikitext-2/train.txt.gz"
READ, SAID = 11_000, 1_000  # tokens
WORDS = 8_000  # of a body: in pieces, more than are read
HELD_OUT = 4  # articles
FEW = 3  # updates whose loss is told as one

BY_TURNS = {"kind": "alternating", "of": [{"kind": "block-local", "size": 256}, "compressed"]}
EXPERTS = {"kind": "moe", "experts": 64, "top": 2}
WAYS: dict[str, dict[str, Any]] = {
    "memory-compressed attention": {"attention": BY_TURNS},
    "the same, 64 experts": {"attention": BY_TURNS, "feed_forward": EXPERTS, "ffn_dim": 512},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--write", action="store_true", help="into docs/")
    parser.add_argument("--work", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[0], Path(options.work[1]), options.steps)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = write_pairs(folder)
        found = {way: run(way, folder, options.steps) for way in WAYS}
    section = described(found, counts, options.steps)
    print(section)
    if options.write:
        keep("long_documents", {"machine": machine(), "articles": counts, **found}, section)


def write_pairs(folder: Path) -> dict[str, int]:
    pairs = [pair for pair in articles() if len(pair[0].split()) > WORDS]
    parts = {"test": pairs[:HELD_OUT], "dev": pairs[:HELD_OUT], "train": pairs[HELD_OUT:]}
    for part, own in parts.items():
        lines = [json.dumps({"text": body, "summary": lead}) for body, lead in own]
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {part: len(own) for part, own in parts.items()}


def articles() -> Iterator[tuple[str, str]]:
    """Of each article, what follows its first heading, and what stands before it."""
    with gzip.open(ARTICLES, "rt", encoding="utf-8") as file:
        text = file.read()
    for article in re.split(r"\n = [^=\n]+ = \n", text)[1:]:
        lead, heading, body = article.partition("\n = = ")
        yield " ".join((heading + body).split()), " ".join(lead.split()[: SAID // 2])


def run(way: str, folder: Path, steps: int) -> dict[str, float]:
    print(f"{way} …", flush=True)
    command = [sys.executable, __file__, "--work", way, str(folder), "--steps", str(steps)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(finished.stdout.splitlines()[-1])
    print(json.dumps(result), flush=True)
    return result


def work(way: str, folder: Path, steps: int) -> None:
    """A real run; the last line said is what was found."""
    import resource

    import torch

    from regard.run_folder import read
    from regard.training.recipe import make_recipe
    from regard.training.trainer import train

    torch.set_num_threads(1)
    place = folder / str(list(WAYS).index(way))
    recipe = make_recipe(recipe_of(way, folder, steps), (), "benchmark")
    train(recipe, place)
    lines = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
    updates = [line for line in lines if "grad_norm" in line]
    losses = [line["loss"] for line in updates]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {
        "parameters": sum(each.numel() for each in read(place).weights.values()),
        "peak": peak,
        "first_loss": mean(losses[:FEW]),
        "last_loss": mean(losses[-FEW:]),
    }
    print(json.dumps(result))


def recipe_of(way: str, folder: Path, steps: int) -> dict[str, Any]:
    def source(part: str) -> dict[str, Any]:
        named = {"keys": ["text", "summary"], "languages": ["text", "summary"]}
        return {"kind": "jsonl", "path": str(folder / f"{part}.jsonl"), **named}

    sizes = {"dim": 256, "ffn_dim": 1024, "heads": 4, "layers": 5}
    return {
        "task": {"kind": "summarization", "source": READ},
        "data": {
            **{part: source(part) for part in ("train", "dev", "test")},
            "prepared": str(folder / "prepared"),
            "filters": {"max_ratio": 1000, "max_characters": 1_000_000},
        },
        "tokenizer": {"kind": "bpe", "vocabulary": 8000},
        "model": {"kind": "decoder-only", **sizes, "max_length": READ + 2 * SAID, **WAYS[way]},
        "training": {
            "steps": steps,
            "batch_tokens": READ + 2 * SAID,
            "evaluation": {"metric": "loss", "every": steps},
        },
    }


def described(found: dict[str, dict[str, float]], counts: dict[str, int], steps: int) -> str:
    rows = [
        [
            way,
            f"{each['parameters'] / 1e6:.1f} M",
            f"{each['peak'] / 1e9:.2f} GB",
            f"{each['first_loss']:.2f} → {each['last_loss']:.2f}",
        ]
        for way, each in found.items()
    ]
    return f"""## Texts of {READ:,} tokens

From the bodies of Wikipedia's longest articles ({counts["train"]} of WikiText-2 with more than
{WORDS:,} words, of which the first {READ:,} tokens at most are read) to their leads: a decoder
only, D 256, 5 layers, {steps} updates of one article each on one thread. Memory is the most that
the process ever had, preparing, optimizer and scoring included.

{table(["", "parameters", "memory", "loss, first → last three"], rows)}
"""


if __name__ == "__main__":
    main()
