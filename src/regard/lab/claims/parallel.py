"""Recurrent models process tokens one by one; attention processes all at once."""

from collections.abc import Callable, Mapping
from itertools import product
from statistics import median
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, exactly, exponent, interval, ratio
from regard.lab.sizing import sized
from regard.models.base import parameter_count

SYMBOLS = 64
ARMS: Mapping[str, Mapping[str, Any]] = {
    "recurrence": {"kind": "recurrent"},
    "attention": {"kind": "language-model", "heads": 2},
}
MULTIPLE = 2  # D is a multiple of this, for the heads


class Spec(Claim):
    number: ClassVar[int] = 2
    title: ClassVar[str] = "Recurrent models are sequential"
    statement: ClassVar[str] = (
        "Forward and backward passes of recurrent models have O(n) sequential operations, because "
        "each state needs the one before; in attention their number is O(1) for any length n."
    )
    experiment: ClassVar[str] = (
        "A recurrent language model and one with attention, with one layer and equal parameter "
        "counts, read texts of growing length. The longest chain of operations that depend on one "
        "another is counted in the gradient graph of all outputs; an operation on a whole tensor "
        "counts as one. Then forward and backward passes are timed, one text at a time, both "
        "models and all lengths in turns."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "recurrent_chain": Criterion("chain of operations per token, recurrent", at_least=1),
        "attentive_chain": Criterion(
            "chain of operations per token, attention", at_least=0, at_most=0
        ),
        "recurrent_time": Criterion(
            "exponent of the time per token in n, recurrent (0: no gain from length)",
            at_least=-0.2,
        ),
        "gained": Criterion(
            "exponent of the time per token in n, recurrent minus attention", at_least=0
        ),
        "slower": Criterion(
            "time per token at the largest n, recurrent over attention", at_least=1
        ),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "lengths": (8, 32, 128),
        "parameters": 20_000,
        "rounds": 5,
        "seeds": 1,
    }

    lengths: tuple[Annotated[int, Field(gt=0)], ...] = Field(
        (16, 32, 64, 128, 256, 512, 1024), min_length=2, description="values of n"
    )
    parameters: int = Field(100_000, gt=0, description="approximate parameters of each model")
    rounds: int = Field(7, gt=1, description="timing rounds for each seed")

    def gather(self, experiment: Experiment) -> Evidence:
        common = {"layers": 1, "dropout": 0.0, "max_length": max(self.lengths)}
        specs = {
            arm: sized({**settings, **common}, self.parameters, SYMBOLS, MULTIPLE)
            for arm, settings in ARMS.items()
        }
        rows: list[dict[str, Any]] = []
        counts: dict[str, int] = {}
        with experiment.plan(self.seeds * self.rounds * len(ARMS) * len(self.lengths), "passes"):
            for seed in range(self.seeds):
                passes: dict[str, Callable[[], Tensor]] = {}
                for arm, spec in specs.items():
                    torch.manual_seed(seed)
                    model = spec.build(SYMBOLS).to(experiment.device)
                    counts[arm] = parameter_count(model)
                    for length in self.lengths:
                        passes[f"{arm} {length}"] = _pass(
                            model, _text(seed, length, experiment.device)
                        )
                seconds = experiment.seconds(passes, self.rounds)
                for arm, length in product(ARMS, self.lengths):
                    name = f"{arm} {length}"
                    measured = {"chain": longest_chain(passes[name]()), "seconds": seconds[name]}
                    rows.append({"seed": seed, "arm": arm, "length": length, **measured})
        return {"parameters": counts, "passes": rows}

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        rows = evidence["passes"]
        slopes = {arm: self._exponents(rows, arm) for arm in ARMS}
        last = {arm: _seconds(rows, arm, max(self.lengths)) for arm in ARMS}
        return {
            "recurrent_chain": self._chain_per_token(rows, "recurrence"),
            "attentive_chain": self._chain_per_token(rows, "attention"),
            "recurrent_time": interval(slopes["recurrence"]),
            "gained": difference(slopes["recurrence"], slopes["attention"]),
            "slower": ratio(last["recurrence"], last["attention"]),
        }

    def _chain_per_token(self, rows: list[dict[str, Any]], arm: str) -> Interval:
        """Return the growth of the chain per token from the shortest to the longest text."""
        shortest, longest = min(self.lengths), max(self.lengths)
        growth = _chains(rows, arm, longest)[0] - _chains(rows, arm, shortest)[0]
        return exactly(growth / (longest - shortest))

    def _exponents(self, rows: list[dict[str, Any]], arm: str) -> list[float]:
        """Return the exponents of the time per token in n, one for each round."""
        rounds = zip(*(_seconds(rows, arm, length) for length in self.lengths), strict=True)
        return [
            exponent(self.lengths, [t / n for t, n in zip(times, self.lengths, strict=True)]).mean
            for times in rounds
        ]

    def show(self, evidence: Evidence) -> list[Figure]:
        rows, counts = evidence["passes"], evidence["parameters"]
        table = [
            [
                str(length),
                *(str(_chains(rows, arm, length)[0]) for arm in ARMS),
                *(f"{1e3 * median(_seconds(rows, arm, length)):.3g}" for arm in ARMS),
            ]
            for length in self.lengths
        ]
        head = ["n", *(f"chain, {arm}" for arm in ARMS), *(f"ms, {arm}" for arm in ARMS)]
        chains = {
            arm: {float(n): exactly(_chains(rows, arm, n)[0]) for n in self.lengths} for arm in ARMS
        }
        times = {
            arm: {
                float(n): interval([1e6 * seconds / n for seconds in _seconds(rows, arm, n)])
                for n in self.lengths
            }
            for arm in ARMS
        }
        parameters = ", ".join(f"{arm} {count:,}" for arm, count in counts.items())
        return [
            Table(f"Forward and backward pass (parameters: {parameters})", head, table),
            Plot("Longest chain of operations", "n", "operations", chains, log_x=True, log_y=True),
            Plot("Time per token", "n", "microseconds", times, log_x=True, log_y=True),
        ]


def longest_chain(result: Tensor) -> int:
    """Return the length of the longest chain of dependent operations from an input to a result.

    It is counted in the gradient graph, which has a node for each operation, without recursion: a
    chain can be longer than Python's recursion limit.
    """
    longest: dict[Any, int] = {}
    stack: list[Any] = [result.grad_fn]
    while stack:
        node = stack[-1]
        inputs = [function for function, _ in node.next_functions if function is not None]
        unvisited = [function for function in inputs if function not in longest]
        if unvisited:
            stack.extend(unvisited)
            continue
        stack.pop()
        is_leaf = not inputs  # gradient accumulation: no operation
        longest[node] = 0 if is_leaf else 1 + max(longest[function] for function in inputs)
    return longest[result.grad_fn]


def _pass(model: nn.Module, ids: Tensor) -> Callable[[], Tensor]:
    def run() -> Tensor:
        total: Tensor = model(ids).sum()
        total.backward()
        return total

    return run


def _text(seed: int, length: int, device: torch.device) -> Tensor:
    return torch.randint(SYMBOLS, (1, length), generator=generator(seed, length)).to(device)


def _seconds(rows: list[dict[str, Any]], arm: str, length: int) -> list[float]:
    """Return the times of all rounds of all seeds."""
    return [seconds for row in _rows_of(rows, arm, length) for seconds in row["seconds"]]


def _chains(rows: list[dict[str, Any]], arm: str, length: int) -> list[int]:
    return [row["chain"] for row in _rows_of(rows, arm, length)]


def _rows_of(rows: list[dict[str, Any]], arm: str, length: int) -> list[dict[str, Any]]:
    return [row for row in rows if (row["arm"], row["length"]) == (arm, length)]
