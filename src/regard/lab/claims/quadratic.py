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

WAYS = ("attention, as written", "attention, fused", "recurrence")
WRITTEN, FUSED, RECURRENCE = WAYS


class Pass(NamedTuple):
    """A forward pass over one text."""

    forward: Callable[[], Tensor]
    given: list[Tensor]  # inputs

    def forward_and_back(self) -> None:
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
        "written_time": Criterion(
            "exponent of time, reference attention", at_least=1.7, at_most=2.3
        ),
        "fused_time": Criterion("exponent of time, fused attention", at_least=1.7, at_most=2.3),
        "recurrent_time": Criterion("exponent of time, recurrent", at_least=0.8, at_most=1.2),
        "written_memory": Criterion(
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
        with experiment.plan(self.seeds * self.rounds * len(WAYS) * len(self.lengths), "passes"):
            for seed in range(self.seeds):
                passes = {
                    f"{way} {length}": self._pass(way, length, seed, experiment.device)
                    for way, length in product(WAYS, self.lengths)
                }
                kept = {there: bytes_kept(*each) for there, each in passes.items()}
                ways = {there: each.forward_and_back for there, each in passes.items()}
                taken = experiment.seconds(ways, self.rounds)
                for way, length in product(WAYS, self.lengths):
                    there = f"{way} {length}"
                    found = {"bytes": kept[there], "seconds": taken[there]}
                    rows.append({"seed": seed, "way": way, "length": length, **found})
        return {"passes": rows}

    def _pass(self, way: str, length: int, seed: int, device: torch.device) -> Pass:
        chance = generator(seed, length)

        def drawn(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=chance).to(device).requires_grad_()

        if way == RECURRENCE:
            torch.manual_seed(seed)
            cell = CellSpec.model_validate({}).build(self.dim, self.dim).to(device)
            x = drawn(1, length, self.dim)
            return Pass(lambda: cell.run(x), [x, *cell.parameters()])
        sizes = Sizes(self.dim, 1, self.dim, length)
        kernel = "reference" if way == WRITTEN else "fused"
        attention = AttentionSpec.model_validate({"kind": kernel}).build(sizes)
        q, k, v = (drawn(1, 1, length, self.dim) for _ in range(3))
        places = torch.arange(length, device=device)
        mask, nowhere = AttentionMask(Full(), places, places), InAttention()
        return Pass(lambda: attention(q, k, v, mask, nowhere), [q, k, v])

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        times, memories = self._time_exponents(evidence), self._memory_exponents(evidence)
        return {
            "written_time": times[WRITTEN],
            "fused_time": times[FUSED],
            "recurrent_time": times[RECURRENCE],
            "written_memory": memories[WRITTEN],
            "recurrent_memory": memories[RECURRENCE],
        }

    def _time_exponents(self, evidence: Evidence) -> dict[str, Interval]:
        """Fit the exponent of time in each round."""
        found = {}
        for way in WAYS:
            rounds = zip(*(_seconds(evidence, way, n) for n in self.lengths), strict=True)
            found[way] = interval([exponent(self.lengths, each).mean for each in rounds])
        return found

    def _memory_exponents(self, evidence: Evidence) -> dict[str, Interval]:
        """Fit the exponent of memory; bytes are counted, so seeds agree."""
        return {
            way: exactly(
                exponent(self.lengths, [_bytes(evidence, way, n) for n in self.lengths]).mean
            )
            for way in WAYS
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        times, memories = self._time_exponents(evidence), self._memory_exponents(evidence)
        table = [
            [
                str(n),
                *(f"{1e3 * median(_seconds(evidence, way, n)):,.3g}" for way in WAYS),
                *(f"{_bytes(evidence, way, n) / 2**20:,.3g}" for way in WAYS),
            ]
            for n in self.lengths
        ]
        fitted = [str(each[way]) for each in (times, memories) for way in WAYS]
        table.append(["exponent", *fitted])
        head = ["n", *(f"ms: {way}" for way in WAYS), *(f"MiB: {way}" for way in WAYS)]
        seconds = {
            way: {float(n): interval(_seconds(evidence, way, n)) for n in self.lengths}
            for way in WAYS
        }
        kept = {
            way: {float(n): exactly(_bytes(evidence, way, n) / 2**20) for n in self.lengths}
            for way in WAYS
        }
        return [
            Table("Cost by length", head, table),
            Plot("Time", "n", "seconds", seconds, log_x=True, log_y=True),
            Plot("Memory kept for the backward pass", "n", "MiB", kept, log_x=True, log_y=True),
        ]


def bytes_kept(forward: Callable[[], Tensor], given: list[Tensor]) -> int:
    """Count the bytes of tensors kept for the backward pass besides the inputs."""
    kept: dict[int, Tensor] = {}  # held, so that no address is reused

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    for tensor in given:
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


def _seconds(evidence: Evidence, way: str, length: int) -> list[float]:
    """Return the times of all rounds of all seeds."""
    return [each for row in _of(evidence, way, length) for each in row["seconds"]]


def _bytes(evidence: Evidence, way: str, length: int) -> int:
    return int(_of(evidence, way, length)[0]["bytes"])


def _of(evidence: Evidence, way: str, length: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = evidence["passes"]
    return [row for row in rows if (row["way"], row["length"]) == (way, length)]
