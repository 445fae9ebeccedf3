"""Measure what recording activations with `regard.watch` costs.

    python benchmarks/watch.py --write

Forward passes of a model that was never watched, one that was watched before, and one that is
watched, in interleaved rounds in one process, on one thread.
"""

import argparse
import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch

from regard.insight.watch import watch
from regard.models.base import ModelSpec
from report import machine, table, write_results

SPEC = {"kind": "encoder-decoder", "size": "small", "dropout": 0.0}
VOCABULARY, ROWS, LENGTH = 8000, 16, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    times = measure(options.rounds)
    ratios = {name: seconds / times["never watched"] for name, seconds in times.items()}
    result = {
        "machine": machine(),
        "rounds": options.rounds,
        "seconds": times,
        "ratios": ratios,
    }
    section = describe(result)
    print(section)
    if options.write:
        write_results("watch", result, section)


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    rows = [
        [name, f"{seconds * 1e3:.1f} ms", f"{result['ratios'][name]:.3f}×"]
        for name, seconds in result["seconds"].items()
    ]
    return f"""## Watching

A forward pass of {ROWS} pairs of {LENGTH} tokens through the small translator, on one thread,
median of {result["rounds"]} interleaved rounds. `regard.watch` attaches hooks and removes them, so
a model that was watched before is as fast as one that never was.

{table(["", "forward pass", "relative"], rows)}"""


@torch.inference_mode()
def measure(rounds: int) -> dict[str, float]:
    """Return the median time of a forward pass in each condition."""
    torch.manual_seed(1)
    never = ModelSpec.model_validate(SPEC).build(VOCABULARY).eval()
    before = ModelSpec.model_validate(SPEC).build(VOCABULARY).eval()
    ids = torch.randint(0, VOCABULARY, (ROWS, LENGTH))
    inputs = (ids, torch.ones_like(ids, dtype=torch.bool), ids)
    with watch(before):
        before(*inputs)
    conditions = ("never watched", "watched before", "watched now")
    seconds: dict[str, list[float]] = {name: [] for name in conditions}
    for _ in range(rounds):
        seconds["never watched"].append(_timed(never, inputs))
        seconds["watched before"].append(_timed(before, inputs))
        with watch(before):
            seconds["watched now"].append(_timed(before, inputs))
    return {name: statistics.median(times) for name, times in seconds.items()}


def _timed(model: torch.nn.Module, inputs: tuple[Any, ...]) -> float:
    start = time.perf_counter()
    model(*inputs)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
