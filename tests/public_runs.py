"""Small run folders for the examples in docstrings: runs/demo, runs/proverbs, runs/reviews …

The translator, the language model, the classifier and the mask filler have memorized a few lines,
so that examples can show their outputs. The others have random weights.
"""

from pathlib import Path
from typing import Any

import torch
import yaml

from regard import run_folder
from regard.config import plain
from regard.data.batches.spans import sentinel
from regard.data.tokenizers import word
from regard.models.base import ModelSpec
from regard.models.weights import weights_of
from regard.training.recipe import make_recipe
from regard.training.trainer import train

PAIRS = [
    ("The cat sleeps.", "Le chat dort."),
    ("The dog sleeps.", "Le chien dort."),
    ("The cat eats.", "Le chat mange."),
    ("The dog eats.", "Le chien mange."),
]
PROVERBS = ["a stitch in time saves nine", "too many cooks spoil the broth"]
REVIEWS = [("a good film", "positive"), ("a bad film", "negative"), ("good", "positive")]
LINES = ["the cat sits on the mat", "the dog sits on the mat", "the cat sits"]
SIZES = {"dim": 32, "heads": 2, "ffn_dim": 64, "layers": 1, "dropout": 0.0, "max_length": 64}


def write_runs(home: Path) -> None:
    """Write runs/ and recipe.yaml into a folder."""
    data = home / "data"
    data.mkdir()
    (data / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS * 8))
    (data / "proverbs.txt").write_text("".join(f"{line}\n" for line in PROVERBS * 20))
    (data / "reviews.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in REVIEWS * 10))
    (data / "lines.txt").write_text("".join(f"{line}\n" for line in LINES * 20))
    recipes = {
        "demo": _recipe(
            home,
            "translation",
            {"kind": "tsv", "path": f"{data}/pairs.tsv", "languages": ["en", "fr"]},
            {"kind": "encoder-decoder"},
        ),
        "proverbs": _recipe(
            home,
            "language-model",
            {"kind": "text", "path": f"{data}/proverbs.txt", "documents": "line"},
            {"kind": "language-model"},
        ),
        "reviews": _recipe(
            home,
            "classification",
            {"kind": "labeled", "path": f"{data}/reviews.tsv"},
            {"kind": "classifier"},
        ),
        "masked": _recipe(
            home,
            "masked-lm",
            {"kind": "text", "path": f"{data}/lines.txt", "documents": "line"},
            {"kind": "masked-lm"},
        ),
    }
    (home / "recipe.yaml").write_text(yaml.safe_dump(recipes["demo"]))
    for name, recipe in recipes.items():
        train(make_recipe(recipe, (), name), home / "runs" / name)
    _write_random(home / "runs")


def _recipe(home: Path, task: str, source: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    return {
        "task": task,
        "data": {
            "train": source,
            "dev": source,
            "prepared": str(home / "prepared" / task),
            "filters": {"duplicates": "keep", "eval_overlap": "keep"},
        },
        "tokenizer": "word",
        "model": {**SIZES, **model},
        "training": {
            "steps": 120,
            "batch_tokens": 256,
            "label_smoothing": 0.0,
            "optimizer": {"learning_rate": 0.01},
            "evaluation": {"every": 120},
        },
    }


def _write_random(runs: Path) -> None:
    """Write a summarizer, a span filler and an encoder with random weights."""
    torch.manual_seed(0)
    tokenizer = word.Spec(vocabulary=400).train(LINES, special_tokens=[sentinel(0), sentinel(1)])
    for name, task, kind, details in (
        (
            "summaries",
            "summarization",
            "encoder-decoder",
            {"max_summary_tokens": 8, "truncate_source": None},
        ),
        ("spans", "span-corruption", "encoder-decoder", {"sentinels": 2}),
        ("encoder", "encoder", "encoder", {}),
    ):
        spec = ModelSpec.model_validate({"kind": kind, **SIZES})
        run = run_folder.Run(
            task=task,
            model=plain(spec),
            vocabulary=len(tokenizer),
            details={"max_length": 64, **details},
            weights=weights_of(spec.build(len(tokenizer))),
            tokenizer=tokenizer.to_json(),
            extra_files={},
            documents={},
        )
        run_folder.write(run, runs / name)
