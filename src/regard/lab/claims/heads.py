"""Many heads cost no more than one, and let one layer look at several places at once."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.base import Attention
from regard.attention.fused import Fused
from regard.attention.masks import AttentionMask
from regard.attention.multi_head import MultiHead
from regard.attention.reference import Reference
from regard.insight.watch import watch
from regard.lab import tasks
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment, generator
from regard.lab.figures import Figure, Plot, Table
from regard.lab.intervals import Interval, difference, exactly, interval, ratio
from regard.models.base import ModelSpec, parameter_count
from regard.positions.base import InAttention, Sizes

TEXTS = 4  # looked through at once when the cost is measured
ROWS, TESTED = 64, 1024  # of a step, and in the end
NAMES = THINGS = 4  # in a list, and to be told apart
RATE = 0.01
ATTENTION = "decoder.blocks.0.attention"


class Spec(Claim):
    number: ClassVar[int] = 10
    title: ClassVar[str] = "Many heads cost no more than one, and see several places at once"
    statement: ClassVar[str] = (
        "One head must choose one pattern; h heads of size D/h look at several places at once in "
        "different subspaces, and are no dearer than one head of size D."
    )
    experiment: ClassVar[str] = (
        "Attention of one size with one head and with many: the operations of its matrix products "
        "are counted, and a forward and a backward pass of both are timed in turns. Then one-layer "
        "language models, equal but for the number of their heads, read a list of four names, "
        "each with a thing, and a question of one to four names, and must say all their things at "
        "once, in the order of the question. What stands in the list does not know which place in "
        "the answer it will have: one head can only tell by seeing each a little less. In first "
        "trials with two places one head learned that too, only more slowly; so it is the most "
        "places that are judged, and all are shown."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "operations": Criterion("operations of matrix products, many heads over one", at_most=1.0),
        "time": Criterion("time forward and back, many heads over one", at_most=1.25),
        "parameters": Criterion("parameters of what is trained, many heads over one", at_most=1.0),
        "learned": Criterion("answers right, most places, many heads", at_least=0.9),
        "better": Criterion("answers right, most places, many heads less one", at_least=0.1),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "heads": (1, 2),
        "places": (2,),
        "steps": 150,
        "cost_dim": 128,
        "cost_heads": 4,
        "cost_length": 64,
        "rounds": 5,
        "seeds": 2,
    }

    heads: tuple[int, ...] = Field((1, 4), min_length=2, description="fewest first")
    places: tuple[int, ...] = Field((1, 2, 4), min_length=1, description="asked for at once")
    dim: int = Field(32, gt=0, description="D of the models trained")
    steps: int = Field(800, gt=0, description="of training")
    cost_dim: int = Field(512, gt=0, description="D of the attention whose cost is measured")
    cost_heads: int = Field(8, gt=1, description="its heads, beside one")
    cost_length: int = Field(128, gt=0, description="words that it looks through")
    rounds: int = Field(20, gt=1, description="of timing")

    def gather(self, experiment: Experiment) -> Evidence:
        units = 2 * self.rounds + self.seeds * len(self.places) * len(self.heads) * self.steps
        with experiment.plan(units):
            ways = {str(heads): self._pass(experiment, heads, Fused()) for heads in self._compared}
            return {
                "operations": {
                    str(heads): _operations(self._pass(experiment, heads, Reference()))
                    for heads in self._compared
                },
                "seconds": experiment.seconds(ways, self.rounds),
                "trained": [
                    {"seed": seed, "places": places, "heads": heads}
                    | self._trained(experiment, seed, places, heads)
                    for seed in range(self.seeds)
                    for places in self.places
                    for heads in self.heads
                ],
            }

    @property
    def _compared(self) -> tuple[int, int]:
        return 1, self.cost_heads

    def _pass(self, experiment: Experiment, heads: int, attention: Attention) -> Callable[[], None]:
        """Forward and back through attention with so many heads."""
        sizes = Sizes(self.cost_dim, heads, self.cost_dim // heads, self.cost_length)
        layer = MultiHead(sizes, attention, InAttention(), bias=True).to(experiment.device)
        shape = (TEXTS, self.cost_length, self.cost_dim)
        words = (
            torch.randn(shape, generator=generator(heads)).to(experiment.device).requires_grad_()
        )
        mask = AttentionMask.bidirectional(self.cost_length, experiment.device)

        def run() -> None:
            q, memory = layer.project_qkv(words, mask.queries)
            layer(q, memory, mask).sum().backward()

        return run

    def _trained(
        self, experiment: Experiment, seed: int, places: int, heads: int
    ) -> dict[str, Any]:
        torch.manual_seed(seed)
        settings: dict[str, Any] = {"heads": heads, "dim": self.dim, "ffn_dim": 2 * self.dim}
        settings |= {"layers": 1, "dropout": 0.0, "position": "none", "max_length": NAMES + 2}
        spec = ModelSpec.model_validate({"kind": "language-model", **settings})
        model = spec.build(tasks.several_symbols(NAMES, THINGS, places)).to(experiment.device)

        def rows(step: int, count: int) -> tasks.Rows:
            drawn = tasks.several(NAMES, THINGS, places, seed, step, rows=count)
            return tasks.Rows(*(each.to(experiment.device) for each in drawn))

        def loss(model: nn.Module, step: int) -> Tensor:
            return tasks.loss(model, rows(step, ROWS))

        curve = experiment.fit(model, loss, self.steps, RATE)
        tested = rows(self.steps, TESTED)
        return {
            "parameters": parameter_count(model),
            "accuracy": tasks.accuracy(model, tested),
            "least": _least(model, tested.ids[:, :-1], places),
            "curve": curve,
        }

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        one, many = (str(heads) for heads in self._compared)
        operations, seconds = evidence["operations"], evidence["seconds"]
        fewest, most = (
            _those(evidence, heads, max(self.places)) for heads in (self.heads[0], self.heads[-1])
        )
        right = [[each["accuracy"] for each in arm] for arm in (most, fewest)]
        return {
            "operations": exactly(operations[many] / operations[one]),
            "time": ratio(seconds[many], seconds[one]),
            "parameters": exactly(most[0]["parameters"] / fewest[0]["parameters"]),
            "learned": interval(right[0]),
            "better": difference(*right),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        cost = [
            [
                heads,
                f"{count:,}",
                str(interval([1000 * each for each in evidence["seconds"][heads]])),
            ]
            for heads, count in evidence["operations"].items()
        ]
        seen = [
            [f"{places} places, heads: {heads}"]
            + [f"{arm[0]['parameters']:,}"]
            + [str(interval([each[name] for each in arm])) for name in ("accuracy", "least")]
            for places in self.places
            for heads in self.heads
            for arm in [_those(evidence, heads, places)]
        ]
        accuracy = {
            f"heads: {heads}": {
                float(places): interval(
                    [each["accuracy"] for each in _those(evidence, heads, places)]
                )
                for places in self.places
            }
            for heads in self.heads
        }
        curves = {
            f"heads: {heads}": {
                float(round((at + 1) * self.steps / len(values[0]))): interval(list(here))
                for at, here in enumerate(zip(*values, strict=True))
            }
            for heads in self.heads
            for values in [[each["curve"] for each in _those(evidence, heads, max(self.places))]]
        }
        title = f"Attention of size {self.cost_dim}, {TEXTS} × {self.cost_length} words"
        return [
            Table(title, ["heads", "operations", "milliseconds forward and back"], cost),
            Table(
                "Several places at once",
                ["", "parameters", "answers right", "weight on the least seen of the places"],
                seen,
            ),
            Plot("Several places at once", "places", "answers right", accuracy),
            Plot(f"Learning to see {max(self.places)} places", "step", "loss", curves),
        ]


def _those(evidence: Evidence, heads: int, places: int) -> list[dict[str, Any]]:
    """What was trained with so many heads on so many places, seed by seed."""
    return [
        each for each in evidence["trained"] if (each["heads"], each["places"]) == (heads, places)
    ]


def _operations(run: Callable[[], None]) -> int:
    """Of the matrix products of one pass, a multiplication and an addition being two."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


@torch.no_grad()
def _least(model: nn.Module, ids: Tensor, places: int) -> float:
    """Each of the places has a head that sees it best: the least of these weights."""
    with watch(model, {"weights"}) as seen:
        model(ids)
    weights = seen.weights(ATTENTION)[:, :, -1, :NAMES]  # of the question, (B, H, names)
    question = ids[:, -1] - NAMES * THINGS
    asked = torch.stack([question // NAMES**digit % NAMES for digit in range(places)], dim=1)
    at = (ids[:, None, :NAMES] // THINGS == asked[:, :, None]).float().argmax(-1)  # (B, places)
    return float(weights.max(1).values.gather(1, at).min(1).values.mean())
