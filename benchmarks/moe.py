"""What does a word cost as experts grow in number, beside a network that has no choice?

    python benchmarks/moe.py --write

One feed-forward network, forward and backward, on one thread, by turns in one process: dense, and
mixtures of more and more experts of the same size, each word given to two. Work is counted by
torch's own counter, of the router and of all else; two experts are twice the dense network's work
however many there are to choose from. Time follows where an expert has words enough to be worth
the reading of its weights and the writing of their gradients, so it is taken for several batches.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.hardware import keep_freed_memory
from regard.layers.feedforward.base import FeedForwardSpec
from report import keep, machine, table

DIM, INNER, TOP = 256, 512, 2
EXPERTS = (4, 8, 16, 32, 64, 128, 256)
TOKENS = (4_096, 16_384, 65_536)
FLAT = 1.25  # times the time of the fewest experts, of which the router's work is a part


@dataclass
class Measured:
    """One network. Work and times are of a token, forward and backward."""

    experts: int  # 0: dense
    parameters: int
    work: int  # floating-point operations in matrix products, without the router's
    router: int  # the router's
    seconds: dict[int, float]  # by the tokens of a batch

    @property
    def name(self) -> str:
        return f"{self.experts} experts" if self.experts else "dense"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="in a batch")
    parser.add_argument("--experts", type=int, nargs="+", default=EXPERTS)
    parser.add_argument("--write", action="store_true", help="into docs/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as training does
    found = measured(sorted(options.experts), sorted(options.tokens), options.rounds)
    section = f"""## Mixture of experts

A feed-forward network of {DIM} → {INNER} → {DIM}, forward and backward on one thread, median of
{options.rounds} rounds by turns. A word goes to {TOP} experts of that size. Work is counted in
operations of matrix products; × is beside the dense network, and beside the fewest experts.

{table(_header(options.tokens), [_row(each, found) for each in found])}

{_verdict(found)}"""
    print(section)
    if options.write:
        keep("moe", {"machine": machine(), "networks": [asdict(e) for e in found]}, section)


def measured(experts: Sequence[int], tokens: Sequence[int], rounds: int) -> list[Measured]:
    torch.manual_seed(1)
    networks = [_network(each) for each in (0, *experts)]
    found = [
        Measured(count, sum(p.numel() for p in network.parameters()), *_work(network), {})
        for count, network in zip((0, *experts), networks, strict=True)
    ]
    for size in tokens:
        x = torch.randn(-(-size // 128), 128, DIM, requires_grad=True)
        times: list[list[float]] = [[] for _ in networks]
        for turn in range(rounds + 1):  # the first is for nothing
            for network, each in zip(networks, times, strict=True):
                taken = _timed(network, x)
                each += [taken] * (turn > 0)
        for one, each in zip(found, times, strict=True):
            one.seconds[size] = statistics.median(each) / x[..., 0].numel()
    return found


def _network(experts: int) -> nn.Module:
    mixture = {"kind": "moe", "experts": experts, "top": TOP}
    given = mixture if experts else {"kind": "dense"}
    return FeedForwardSpec.model_validate(given).build(DIM, INNER)


def _work(network: nn.Module) -> tuple[int, int]:
    """For a token, without the router and in the router; both passes."""
    x = torch.randn(8, 128, DIM, requires_grad=True)
    routers = [each for name, each in network.named_children() if name == "router"]
    all_of_it = _counted(network, x) // 1024
    router = sum(_counted(each, x) for each in routers) // 1024
    return all_of_it - router, router


def _counted(network: nn.Module, x: Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        network(x).sum().backward()
    return counter.get_total_flops()


def _timed(network: nn.Module, x: Tensor) -> float:
    network.zero_grad()
    x.grad = None
    began = time.perf_counter()
    network(x).sum().backward()
    return time.perf_counter() - began


def _header(tokens: Sequence[int]) -> list[str]:
    batches = [f"a token of {size:,}" for size in sorted(tokens)]
    return ["", "parameters", "MFLOP a token", "its router", *batches]


def _row(each: Measured, found: Sequence[Measured]) -> list[str]:
    dense, fewest = found[0], found[1]
    router = f"+ {each.router / 1e6:.3f}" if each.experts else ""
    cells = []
    for size, seconds in each.seconds.items():
        beside = [f"{seconds / other.seconds[size]:.2f}×" for other in (dense, fewest)]
        cells.append(f"{seconds * 1e6:.1f} µs, " + ", ".join(beside[: 2 if each.experts else 1]))
    return [each.name, f"{each.parameters:,}", f"{each.work / 1e6:.3f}", router, *cells]


def _verdict(found: Sequence[Measured]) -> str:
    """From how many words to an expert on time is flat, as far as was looked."""
    fewest = found[1]
    beside = [
        (size * TOP / each.experts, seconds / fewest.seconds[size])
        for each in found[1:]
        for size, seconds in each.seconds.items()
    ]
    steep = [words for words, times in beside if times > FLAT]
    flat = min((words for words, _ in beside if words > max(steep, default=0)), default=None)
    if flat is None:
        return f"Time is not flat (within {FLAT}× of {fewest.name}) in any of these batches."
    return (
        f"With at least {flat:,.0f} words to an expert, a token takes no more than {FLAT}× the "
        f"time that it takes with {fewest.name}; the largest of all was "
        f"{max(times for _, times in beside):.2f}×."
    )


if __name__ == "__main__":
    main()
