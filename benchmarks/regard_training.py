"""Run Regard as an engine of the training benchmark, with the peers' command line.

Throughput is measured with the peers' optimizer (Adam), so that the work is the same. Training uses
Regard's defaults: the recipe with a time budget.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))
from common import matrix_rate, peak_memory, process_age, write

RECIPE = Path(__file__).parent.parent / "recipes" / "multi30k-fr-en.yaml"


def throughput(options: argparse.Namespace) -> dict[str, Any]:
    from regard.data.sampling.sampler import DataCursor
    from regard.data.store.prepare import prepare
    from regard.hardware import keep_freed_memory
    from regard.models.base import parameter_count
    from regard.training.distributed.world import World
    from regard.training.learner import Learner
    from regard.training.recipe import read_recipe

    keep_freed_memory()
    optimizer = "training.optimizer={kind: adamw, learning_rate: 0.0003}"
    recipe = read_recipe(RECIPE, [optimizer, *options.overrides])
    prepared = prepare(recipe.data, recipe.tokenizer, recipe.model.max_length)
    task = recipe.task.bind(recipe, prepared)
    learner = Learner(
        task.model().build(len(prepared.tokenizer)), task.loss, recipe.training, World()
    )
    batches = task.batches(DataCursor())
    seconds, rates, source, target, real_tokens, padded = [], [], 0, 0, 0, 0
    for step in range(1, options.warmup + options.steps + 1):
        start = time.perf_counter()
        batch = next(batches)[0]
        learner.update([batch], step, 0.0)
        if step == 1:
            first_step = process_age()
        if step > options.warmup:
            seconds.append(time.perf_counter() - start)
            rates.append(matrix_rate())
            source += int(batch.source_mask.sum())
            target += batch.num_targets
            real_tokens += int(batch.source_mask.sum() + batch.target_mask.sum())
            padded += batch.source.numel() + batch.target.numel()
    return {
        "target_tokens_per_second": target / sum(seconds),
        "source_tokens_per_second": source / sum(seconds),
        "median_step_seconds": statistics.median(seconds),
        "step_seconds": seconds,
        "matrix_rates": rates,
        "first_step_seconds": first_step,
        "peak_memory_bytes": peak_memory(),
        "parameters": parameter_count(learner.model),
        "padding_share": 1 - real_tokens / padded,
    }


def train(options: argparse.Namespace) -> dict[str, Any]:
    from regard.training.recipe import read_recipe
    from regard.training.trainer import train as train_recipe

    assignments = [f"training.budget={options.seconds}s", *options.overrides]
    recipe = read_recipe(RECIPE, assignments)
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        translator = train_recipe(recipe, run)
        lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    curve = [
        {"seconds": event["seconds"], "step": event["step"], "dev_bleu": event["scores"]["bleu"]}
        for event in events
        if "scores" in event
    ]
    references = _lines(options.data / "test.en")
    sources = _lines(options.data / "test.fr")
    hypotheses = translator.translate(sources, "en", beam=5)
    from common import bleu

    return {
        "curve": curve,
        "best_dev_bleu": max(point["dev_bleu"] for point in curve),
        "test_bleu": bleu(hypotheses, references),
        "test_hypotheses": hypotheses,
        "peak_memory_bytes": peak_memory(),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--mode", choices=("throughput", "train"), required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("overrides", nargs="*", help="key.path=value: overrides of the recipe")
    options = parser.parse_intermixed_args()
    import torch

    torch.set_num_threads(options.threads)
    result = throughput(options) if options.mode == "throughput" else train(options)
    write(options.out, {"name": "Regard", "mode": options.mode, **result})


if __name__ == "__main__":
    main()
