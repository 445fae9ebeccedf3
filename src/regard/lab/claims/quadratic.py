"""The cost of attention grows with the square of the length; that of recurrence linearly."""

from collections.abc import Callable, Mapping
from itertools import product
from statistics import median
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.base import AttentionSpec
from regard.attention.masks import AttentionMask, Full
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, exactly, exponent, interval
from regard.layers.recurrent.base import CellSpec
from regard.positions.base import InAttention, Sizes

METHODS = ("attention, reference", "attention, fused", "recurrence")
REFERENCE, FUSED, RECURRENCE = METHODS


class Pass(NamedTuple):
    """A forward pass over one text."""

    forward: Callable[[], Tensor]
    inputs: list[Tensor]

    def forward_and_backward(self) -> None:
        self.forward().sum().backward()


class Spec(Claim):
    number: ClassVar[int] = 12
    title: ClassVar[str] = "Attention is quadratic in the length"
    statement: ClassVar[str] = (
        "Self-attention compares all pairs of tokens, so its cost grows with the square of the "
        "length, in time and in memory; that of recurrence grows linearly."
    )
    experiment: ClassVar[str] = (
        "Attention from every token to every token, by the reference implementation and by the "
        "fused kernel, and a recurrent cell of the same size process one text of growing length, "
        "forward and backward. The exponent p of cost ≈ c · nᵖ is fitted in each round: for the "
        "time, and for the bytes kept for the backward pass besides the inputs. The projections "
        "before and after attention, which are linear in n, are left out, and lengths start where "
        "the constant cost of a call is negligible. The fused kernel computes the scores in blocks "
        "and keeps none, so that the claim on memory is one on the equation as written; what the "
        "kernel keeps is shown."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "reference_time": Criterion(
            "exponent of time, reference attention", at_least=1.7, at_most=2.3
        ),
        "fused_time": Criterion("exponent of time, fused attention", at_least=1.7, at_most=2.3),
        "recurrent_time": Criterion("exponent of time, recurrent", at_least=0.8, at_most=1.2),
        "reference_memory": Criterion(
            "exponent of memory, reference attention", at_least=1.9, at_most=2.1
        ),
        "recurrent_memory": Criterion("exponent of memory, recurrent", at_least=0.9, at_most=1.1),
    }
    quick: ClassVar[Mapping[str, Any]] = {"lengths": (256, 512, 1024), "rounds": 3, "seeds": 1}

    lengths: tuple[Annotated[int, Field(gt=0)], ...] = Field(
        (1024, 2048, 4096, 8192), min_length=2, description="values of n"
    )
    dim: int = Field(64, gt=0, description="size of keys and values, and of the recurrent state")
    rounds: int = Field(5, gt=1, description="timing rounds for each seed")

    def gather(self, experiment: Experiment) -> Evidence:
        rows: list[dict[str, Any]] = []
        with experiment.plan(self.seeds * self.rounds * len(METHODS) * len(self.lengths), "passes"):
            for seed in range(self.seeds):
                passes = {
                    f"{method} {length}": self._pass(method, length, seed, experiment.device)
                    for method, length in product(METHODS, self.lengths)
                }
                memory = {name: saved_bytes(*run) for name, run in passes.items()}
                timed = {name: run.forward_and_backward for name, run in passes.items()}
                seconds = experiment.seconds(timed, self.rounds)
                for method, length in product(METHODS, self.lengths):
                    name = f"{method} {length}"
                    measured = {"bytes": memory[name], "seconds": seconds[name]}
                    rows.append({"seed": seed, "method": method, "length": length, **measured})
        return {"passes": rows}

    def _pass(self, method: str, length: int, seed: int, device: torch.device) -> Pass:
        rng = generator(seed, length)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=rng).to(device).requires_grad_()

        if method == RECURRENCE:
            torch.manual_seed(seed)
            cell = CellSpec.model_validate({}).build(self.dim, self.dim).to(device)
            x = draw(1, length, self.dim)
            return Pass(lambda: cell.run(x), [x, *cell.parameters()])
        sizes = Sizes(self.dim, 1, self.dim, length)
        kernel = "reference" if method == REFERENCE else "fused"
        attention = AttentionSpec.model_validate({"kind": kernel}).build(sizes)
        q, k, v = (draw(1, 1, length, self.dim) for _ in range(3))
        positions = torch.arange(length, device=device)
        mask, no_position = AttentionMask(Full(), positions, positions), InAttention()
        return Pass(lambda: attention(q, k, v, mask, no_position), [q, k, v])

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        times, memories = self._time_exponents(evidence), self._memory_exponents(evidence)
        return {
            "reference_time": times[REFERENCE],
            "fused_time": times[FUSED],
            "recurrent_time": times[RECURRENCE],
            "reference_memory": memories[REFERENCE],
            "recurrent_memory": memories[RECURRENCE],
        }

    def _time_exponents(self, evidence: Evidence) -> dict[str, Interval]:
        """Fit the exponent of time in each round."""
        exponents = {}
        for method in METHODS:
            rounds = zip(*(_seconds(evidence, method, n) for n in self.lengths), strict=True)
            exponents[method] = interval([exponent(self.lengths, times).mean for times in rounds])
        return exponents

    def _memory_exponents(self, evidence: Evidence) -> dict[str, Interval]:
        """Fit the exponent of memory; bytes are counted, so seeds agree."""
        return {
            method: exactly(
                exponent(self.lengths, [_bytes(evidence, method, n) for n in self.lengths]).mean
            )
            for method in METHODS
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        times, memories = self._time_exponents(evidence), self._memory_exponents(evidence)
        table = [
            [
                str(n),
                *(f"{1e3 * median(_seconds(evidence, method, n)):,.3g}" for method in METHODS),
                *(f"{_bytes(evidence, method, n) / 2**20:,.3g}" for method in METHODS),
            ]
            for n in self.lengths
        ]
        fitted = [str(exponents[method]) for exponents in (times, memories) for method in METHODS]
        table.append(["exponent", *fitted])
        head = [
            "n",
            *(f"ms: {method}" for method in METHODS),
            *(f"MiB: {method}" for method in METHODS),
        ]
        seconds = {
            method: {float(n): interval(_seconds(evidence, method, n)) for n in self.lengths}
            for method in METHODS
        }
        memory = {
            method: {float(n): exactly(_bytes(evidence, method, n) / 2**20) for n in self.lengths}
            for method in METHODS
        }
        return [
            Table("Cost by length", head, table),
            Plot("Time", "n", "seconds", seconds, log_x=True, log_y=True),
            Plot("Memory kept for the backward pass", "n", "MiB", memory, log_x=True, log_y=True),
        ]


def saved_bytes(forward: Callable[[], Tensor], inputs: list[Tensor]) -> int:
    """Count the bytes of tensors saved for the backward pass besides the inputs."""
    saved: dict[int, Tensor] = {}  # references, so that no address is reused

    def save(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        forward()
    for tensor in inputs:
        saved.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(tensor.untyped_storage().nbytes() for tensor in saved.values())


def _seconds(evidence: Evidence, method: str, length: int) -> list[float]:
    """Return the times of all rounds of all seeds."""
    return [seconds for row in _rows_of(evidence, method, length) for seconds in row["seconds"]]


def _bytes(evidence: Evidence, method: str, length: int) -> int:
    return int(_rows_of(evidence, method, length)[0]["bytes"])


def _rows_of(evidence: Evidence, method: str, length: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = evidence["passes"]
    return [row for row in rows if (row["method"], row["length"]) == (method, length)]
