"""Measure the cost per token of a mixture of experts against a dense network.

    python benchmarks/moe.py --write

Feed-forward networks, forward and backward, on one thread, in interleaved rounds in one process: a
dense one, and mixtures with growing numbers of experts of the same size, two for each token.
Operations are counted by torch, separately for the router; two experts are twice the work of the
dense network for any number of experts. Time per token is constant only if an expert has enough
tokens to amortize reading its weights and writing their gradients, so several batch sizes are
measured.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.hardware import keep_freed_memory
from regard.layers.feedforward.base import FeedForwardSpec
from report import machine, table, write_results

DIM, FFN_DIM, TOP_K = 256, 512, 2
EXPERTS = (4, 8, 16, 32, 64, 128, 256)
TOKENS = (4_096, 16_384, 65_536)
FLAT = 1.25  # time per token, relative to the fewest experts, that counts as constant


@dataclass
class Measured:
    """Operations and times of one network, per token, forward and backward."""

    experts: int  # 0: dense
    parameters: int
    work: int  # floating-point operations in matrix products, without the router
    router: int  # operations of the router
    seconds: dict[int, float]  # by tokens in a batch

    @property
    def name(self) -> str:
        return f"{self.experts} experts" if self.experts else "dense"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=TOKENS, help="batch sizes in tokens"
    )
    parser.add_argument("--experts", type=int, nargs="+", default=EXPERTS)
    parser.add_argument("--write", action="store_true", help="write the results into docs/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    networks = measure(sorted(options.experts), sorted(options.tokens), options.rounds)
    result = {
        "machine": machine(),
        "rounds": options.rounds,
        "networks": [asdict(network) for network in networks],
    }
    section = describe(result)
    print(section)
    if options.write:
        write_results("moe", result, section)


def describe(result: Mapping[str, Any]) -> str:
    """Return the section of the page."""
    networks = [
        Measured(**{**row, "seconds": {int(size): value for size, value in row["seconds"].items()}})
        for row in result["networks"]
    ]
    return f"""## Mixture of experts

Feed-forward networks of {DIM} → {FFN_DIM} → {DIM}, forward and backward on one thread, median of
{result["rounds"]} interleaved rounds. Each token is computed by {TOP_K} experts of that size. Work
is counted in operations of matrix products; × is relative to the dense network, and to the fewest
experts.

{table(_header(list(networks[0].seconds)), [_row(network, networks) for network in networks])}

{_verdict(networks)}"""


def measure(experts: Sequence[int], tokens: Sequence[int], rounds: int) -> list[Measured]:
    """Count the operations of the networks and measure their times, in interleaved rounds."""
    torch.manual_seed(1)
    networks = [_network(count) for count in (0, *experts)]
    results = [
        Measured(count, sum(p.numel() for p in network.parameters()), *_work(network), {})
        for count, network in zip((0, *experts), networks, strict=True)
    ]
    for size in tokens:
        x = torch.randn(-(-size // 128), 128, DIM, requires_grad=True)
        times: list[list[float]] = [[] for _ in networks]
        for turn in range(rounds + 1):  # the first is a warm-up
            for network, seconds in zip(networks, times, strict=True):
                spent = _timed(network, x)
                seconds += [spent] * (turn > 0)
        for result, seconds in zip(results, times, strict=True):
            result.seconds[size] = statistics.median(seconds) / x[..., 0].numel()
    return results


def _network(experts: int) -> nn.Module:
    mixture = {"kind": "moe", "experts": experts, "top": TOP_K}
    spec = mixture if experts else {"kind": "dense"}
    return FeedForwardSpec.model_validate(spec).build(DIM, FFN_DIM)


def _work(network: nn.Module) -> tuple[int, int]:
    """Return the operations per token without the router and in the router, both passes."""
    x = torch.randn(8, 128, DIM, requires_grad=True)
    routers = [child for name, child in network.named_children() if name == "router"]
    total = _flops(network, x) // 1024
    router = sum(_flops(child, x) for child in routers) // 1024
    return total - router, router


def _flops(network: nn.Module, x: Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        network(x).sum().backward()
    return counter.get_total_flops()


def _timed(network: nn.Module, x: Tensor) -> float:
    network.zero_grad()
    x.grad = None
    start = time.perf_counter()
    network(x).sum().backward()
    return time.perf_counter() - start


def _header(tokens: Sequence[int]) -> list[str]:
    batches = [f"time per token, batch of {size:,}" for size in sorted(tokens)]
    return ["", "parameters", "MFLOP per token", "router", *batches]


def _row(network: Measured, networks: Sequence[Measured]) -> list[str]:
    dense, fewest = networks[0], networks[1]
    router = f"+ {network.router / 1e6:.3f}" if network.experts else ""
    cells = []
    for size, seconds in network.seconds.items():
        ratios = [f"{seconds / other.seconds[size]:.2f}×" for other in (dense, fewest)]
        cells.append(f"{seconds * 1e6:.1f} µs, " + ", ".join(ratios[: 2 if network.experts else 1]))
    return [network.name, f"{network.parameters:,}", f"{network.work / 1e6:.3f}", router, *cells]


def _verdict(networks: Sequence[Measured]) -> str:
    """Return from how many tokens per expert the time per token is constant."""
    fewest = networks[1]
    ratios = [
        (size * TOP_K / network.experts, seconds / fewest.seconds[size])
        for network in networks[1:]
        for size, seconds in network.seconds.items()
    ]
    slow = [tokens for tokens, ratio in ratios if ratio > FLAT]
    flat = min((tokens for tokens, _ in ratios if tokens > max(slow, default=0)), default=None)
    if flat is None:
        return f"Time is not constant (within {FLAT}× of {fewest.name}) in any of these batches."
    return (
        f"With at least {flat:,.0f} tokens per expert, the time per token is at most {FLAT}× that "
        f"with {fewest.name}; the largest ratio was {max(ratio for _, ratio in ratios):.2f}×."
    )


if __name__ == "__main__":
    main()
