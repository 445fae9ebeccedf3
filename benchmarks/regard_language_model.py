"""Regard as an engine of the language-model benchmark: a recipe, trained as a user would.

    python benchmarks/regard_language_model.py RECIPE DATA --out result.json training.steps=500

DATA holds train.txt and dev.txt. The loss at the end is worked out by the peer's own function, on
the same windows of the same characters.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from common import peak_memory, write
from nanogpt import estimate, whole_loss


def train(options: argparse.Namespace) -> dict[str, Any]:
    from regard.models.base import parameter_count
    from regard.training.recipe import read_recipe
    from regard.training.trainer import train as train_recipe

    data = [
        f"data.{part}={{kind: text, path: {options.data / part}.txt}}" for part in ("train", "dev")
    ]
    folder = f"data.prepared={options.data / 'prepared'}"
    recipe = read_recipe(options.recipe, [*data, folder, *options.overrides])
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        writer = train_recipe(recipe, run)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        standing = json.loads((run / "model.json").read_text("utf-8"))["details"]["training"]
    events = [json.loads(line) for line in lines]
    looks = [each for each in events if "scores" in each]
    text = (options.data / "dev.txt").read_text(encoding="utf-8")
    ids = torch.tensor(writer.tokenizer.encode(text)).numpy()
    context = recipe.model.max_length
    return {
        "curve": [
            {"step": each["step"], "seconds": each["seconds"], "loss": each["scores"]["loss"]}
            for each in looks
        ],
        # When updates began; the last look begins when the last update is done.
        "starts": [each["seconds"] for each in events if "grad_norm" in each],
        "seconds": looks[-1]["seconds"],
        "steps": looks[-1]["step"],
        "kept_step": standing["best_step"],
        "loss": whole_loss(writer.model, ids, context),
        "estimate": estimate(writer.model, ids, context),
        "parameters": parameter_count(writer.model),
        "peak_memory_bytes": peak_memory(),
        "recipe": options.recipe.read_text(encoding="utf-8"),
        "overrides": options.overrides,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("overrides", nargs="*", help="key.path=value, changes to the recipe")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(options.threads)
    write(options.out, train(options))


if __name__ == "__main__":
    main()
