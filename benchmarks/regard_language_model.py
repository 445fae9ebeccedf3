"""Run Regard as an engine of the language-model benchmark: train a recipe.

    python benchmarks/regard_language_model.py RECIPE DATA --out result.json training.steps=500

DATA contains train.txt and dev.txt. The final loss is computed by the peer's own function, on the
same windows of the same characters.
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
from nanogpt import estimate, exact_loss


def train(options: argparse.Namespace) -> dict[str, Any]:
    from regard.models.base import parameter_count
    from regard.training.recipe import read_recipe
    from regard.training.trainer import train as train_recipe

    data = [
        f"data.{split}={{kind: text, path: {options.data / split}.txt}}"
        for split in ("train", "dev")
    ]
    folder = f"data.prepared={options.data / 'prepared'}"
    recipe = read_recipe(options.recipe, [*data, folder, *options.overrides])
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        generator = train_recipe(recipe, run)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        state = json.loads((run / "model.json").read_text("utf-8"))["details"]["training"]
    events = [json.loads(line) for line in lines]
    evaluations = [event for event in events if "scores" in event]
    text = (options.data / "dev.txt").read_text(encoding="utf-8")
    ids = torch.tensor(generator.tokenizer.encode(text)).numpy()
    context = recipe.model.max_length
    return {
        "curve": [
            {"step": event["step"], "seconds": event["seconds"], "loss": event["scores"]["loss"]}
            for event in evaluations
        ],
        # Start times of the updates; the last evaluation starts when the last update is done.
        "starts": [event["seconds"] for event in events if "grad_norm" in event],
        "seconds": evaluations[-1]["seconds"],
        "steps": evaluations[-1]["step"],
        "kept_step": state["best_step"],
        "loss": exact_loss(generator.model, ids, context),
        "estimate": estimate(generator.model, ids, context),
        "parameters": parameter_count(generator.model),
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
    parser.add_argument("overrides", nargs="*", help="key.path=value: overrides of the recipe")
    options = parser.parse_intermixed_args()
    torch.set_num_threads(options.threads)
    write(options.out, train(options))


if __name__ == "__main__":
    main()
