"""What does a word cost as experts grow in number, beside a network that has no choice?

    python benchmarks/experts.py --write

One feed-forward network, forward and backward, on one thread, by turns in one process: dense, and
mixtures of more and more experts of the same size, each word given to two. Per token, and as a
share of the dense network's time; two experts of its size are twice its work.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.blocks.feedforward import FeedForwardSpec
from report import keep, machine, table

DIM, INNER, TOP = 256, 512, 2
EXPERTS = (4, 8, 16, 32, 64, 128, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=16_384)
    parser.add_argument("--experts", type=int, nargs="+", default=EXPERTS)
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    times = measured(options.experts, options.tokens, options.rounds)
    per_token = {name: each / options.tokens for name, each in times.items()}
    rows = [
        [name, f"{each * 1e6:.1f} µs", f"{each / per_token['dense']:.2f}×"]
        for name, each in per_token.items()
    ]
    section = f"""## Experts

A feed-forward network of {DIM} → {INNER} → {DIM}, forward and backward, {options.tokens:,} tokens
at once on one thread, median of {options.rounds} rounds by turns. A word goes to {TOP} experts of
that size.

{table(["", "a token", "of dense"], rows)}"""
    print(section)
    if options.write:
        found = {"machine": machine(), "tokens": options.tokens, "seconds_per_token": per_token}
        keep("experts", found, section)


def measured(experts: Sequence[int], tokens: int, rounds: int) -> dict[str, float]:
    """Seconds for all tokens, by name."""
    torch.manual_seed(1)
    given = {"dense": {"kind": "dense"}}
    given |= {f"{each} experts": _mixture(each) for each in experts}
    networks = {
        name: FeedForwardSpec.model_validate(spec).build(DIM, INNER) for name, spec in given.items()
    }
    x = torch.randn(tokens // 128, 128, DIM)
    for network in networks.values():
        _timed(network, x)
    times: dict[str, list[float]] = {name: [] for name in networks}
    for _ in range(rounds):
        for name, network in networks.items():
            times[name].append(_timed(network, x))
    return {name: statistics.median(each) for name, each in times.items()}


def _mixture(experts: int) -> dict[str, object]:
    return {"kind": "experts", "experts": experts, "top": TOP}


def _timed(network: nn.Module, x: Tensor) -> float:
    network.zero_grad()
    began = time.perf_counter()
    network(x).sum().backward()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
