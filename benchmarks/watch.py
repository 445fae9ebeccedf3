"""What does it cost to be able to watch: while nobody does, and while somebody does?

    python benchmarks/watch.py --write

The same model three times: never watched, watched before, and watched now; forward passes by turns,
in one process, on one thread.
"""

import argparse
import statistics
import time
from typing import Any

import torch

from regard.insight.watch import watch
from regard.models.base import ModelSpec
from report import keep, machine, table

SPEC = {"kind": "encoder-decoder", "size": "small", "dropout": 0.0}
VOCABULARY, ROWS, LENGTH = 8000, 16, 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    times = measured(options.rounds)
    usual = times["never watched"]
    ratios = {name: each / usual for name, each in times.items()}
    rows = [[name, f"{each * 1e3:.1f} ms", f"{ratios[name]:.3f}×"] for name, each in times.items()]
    section = f"""## Watching

A forward pass of {ROWS} pairs of {LENGTH} words through the small translator, on one thread, median
of {options.rounds} rounds by turns. Nothing is switched in a model, so nothing is left behind.

{table(["", "a pass", "of the first"], rows)}"""
    print(section)
    if options.write:
        keep("watch", {"machine": machine(), "seconds": times, "ratios": ratios}, section)


@torch.inference_mode()
def measured(rounds: int) -> dict[str, float]:
    torch.manual_seed(1)
    never = ModelSpec.model_validate(SPEC).build(VOCABULARY).eval()
    before = ModelSpec.model_validate(SPEC).build(VOCABULARY).eval()
    ids = torch.randint(0, VOCABULARY, (ROWS, LENGTH))
    inputs = (ids, torch.ones_like(ids, dtype=torch.bool), ids)
    with watch(before):
        before(*inputs)
    found: dict[str, list[float]] = {name: [] for name in ("never watched", "watched before")}
    found["watched now"] = []
    for _ in range(rounds):
        found["never watched"].append(_timed(never, inputs))
        found["watched before"].append(_timed(before, inputs))
        with watch(before):
            found["watched now"].append(_timed(before, inputs))
    return {name: statistics.median(times) for name, times in found.items()}


def _timed(model: torch.nn.Module, inputs: tuple[Any, ...]) -> float:
    began = time.perf_counter()
    model(*inputs)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
