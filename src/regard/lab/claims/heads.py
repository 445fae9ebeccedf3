"""Many heads cost no more than one, and let one layer attend to several positions at once."""

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
from regard.lab.intervals import (
    Interval,
    exactly,
    interval,
    proportion,
    proportion_difference,
    ratio,
)
from regard.models.base import ModelSpec, parameter_count
from regard.positions.base import InAttention, Sizes

BATCH = 4  # batch size when the cost is measured
ROWS, TEST_ROWS = 64, 1024  # rows of a training batch and of the test
KEYS = VALUES = 4  # keys in a list, and possible values
RATE = 0.01
ATTENTION = "decoder.blocks.0.attention"


class Spec(Claim):
    number: ClassVar[int] = 10
    title: ClassVar[str] = (
        "Many heads cost no more than one, and attend to several positions at once"
    )
    statement: ClassVar[str] = (
        "One head must choose one pattern; h heads of size D/h attend to several positions at once "
        "in different subspaces, and cost no more than one head of size D."
    )
    experiment: ClassVar[str] = (
        "For attention of one size with one head and with many, the operations of the matrix "
        "products are counted, and forward and backward passes are timed in turns. Then one-layer "
        "language models that differ only in the number of heads read a list of four keys, each "
        "with a value, and a question of one to four keys, and predict all their values at once, "
        "in the order of the question. A list item does not contain its position in the answer: "
        "one head can represent the order only by different weights. In first trials with two keys "
        "one head learned this too, only more slowly; therefore the criteria are on the largest "
        "number of keys, and all are shown."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "operations": Criterion(
            "operations of matrix products, many heads over one",
            at_most=1.0,
            by_construction="h products of size D/h are one of size D",
        ),
        "time": Criterion("time of forward and backward pass, many heads over one", at_most=1.25),
        "parameters": Criterion(
            "parameters of the trained models, many heads over one",
            at_most=1.0,
            by_construction="h heads of size D/h have the matrices of one of size D",
        ),
        "learned": Criterion("accuracy, most keys, many heads", at_least=0.9),
        "better": Criterion("accuracy, most keys, many heads minus one", at_least=0.1),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "heads": (1, 2),
        "keys": (2,),
        "steps": 40,
        "cost_dim": 128,
        "cost_heads": 4,
        "cost_length": 64,
        "rounds": 5,
        "seeds": 2,
    }

    renamed_keys: ClassVar[Mapping[str, str]] = {"places": "keys"}

    heads: tuple[int, ...] = Field(
        (1, 4), min_length=2, description="numbers of heads, fewest first"
    )
    keys: tuple[int, ...] = Field(
        (1, 2, 4), min_length=1, description="numbers of keys in a question"
    )
    dim: int = Field(32, gt=0, description="D of the trained models")
    steps: int = Field(800, gt=0, description="training steps")
    cost_dim: int = Field(512, gt=0, description="D of the attention whose cost is measured")
    cost_heads: int = Field(8, gt=1, description="its number of heads, compared with one")
    cost_length: int = Field(128, gt=0, description="its number of tokens")
    rounds: int = Field(20, gt=1, description="timing rounds")

    def gather(self, experiment: Experiment) -> Evidence:
        units = 2 * self.rounds + self.seeds * len(self.keys) * len(self.heads) * self.steps
        with experiment.plan(units):
            passes = {
                str(heads): self._pass(experiment, heads, Fused()) for heads in self._compared
            }
            return {
                "operations": {
                    str(heads): _operations(self._pass(experiment, heads, Reference()))
                    for heads in self._compared
                },
                "seconds": experiment.seconds(passes, self.rounds),
                "trained": [
                    {"seed": seed, "keys": keys, "heads": heads}
                    | self._trained(experiment, seed, keys, heads)
                    for seed in range(self.seeds)
                    for keys in self.keys
                    for heads in self.heads
                ],
            }

    @property
    def _compared(self) -> tuple[int, int]:
        return 1, self.cost_heads

    def _pass(self, experiment: Experiment, heads: int, attention: Attention) -> Callable[[], None]:
        """Return a forward and backward pass through attention with so many heads."""
        sizes = Sizes(self.cost_dim, heads, self.cost_dim // heads, self.cost_length)
        layer = MultiHead(sizes, attention, InAttention(), bias=True).to(experiment.device)
        shape = (BATCH, self.cost_length, self.cost_dim)
        inputs = (
            torch.randn(shape, generator=generator(heads)).to(experiment.device).requires_grad_()
        )
        mask = AttentionMask.bidirectional(self.cost_length, experiment.device)

        def run() -> None:
            q, cache = layer.project_qkv(inputs, mask.queries)
            layer(q, cache, mask).sum().backward()

        return run

    def _trained(self, experiment: Experiment, seed: int, keys: int, heads: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        settings: dict[str, Any] = {"heads": heads, "dim": self.dim, "ffn_dim": 2 * self.dim}
        settings |= {"layers": 1, "dropout": 0.0, "position": "none", "max_length": KEYS + 2}
        spec = ModelSpec.model_validate({"kind": "language-model", **settings})
        model = spec.build(tasks.multi_query_vocabulary(KEYS, VALUES, keys)).to(experiment.device)

        def rows(step: int, count: int) -> tasks.Rows:
            batch = tasks.multi_query_recall(KEYS, VALUES, keys, seed, step, rows=count)
            return tasks.Rows(*(tensor.to(experiment.device) for tensor in batch))

        def loss(model: nn.Module, step: int) -> Tensor:
            return tasks.loss(model, rows(step, ROWS))

        curve = experiment.fit(model, loss, self.steps, RATE)
        tested = rows(self.steps, TEST_ROWS)
        return {
            "parameters": parameter_count(model),
            "accuracy": tasks.accuracy(model, tested),
            "least": _smallest_best_weight(model, tested.ids[:, :-1], keys),
            "curve": curve,
        }

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        one, many = (str(heads) for heads in self._compared)
        operations, seconds = evidence["operations"], evidence["seconds"]
        one_head, many_heads = (
            _runs(evidence, heads, max(self.keys)) for heads in (self.heads[0], self.heads[-1])
        )
        accuracies = [[run["accuracy"] for run in arm] for arm in (many_heads, one_head)]
        tested = TEST_ROWS * len(one_head)
        return {
            "operations": exactly(operations[many] / operations[one]),
            "time": ratio(seconds[many], seconds[one]),
            "parameters": exactly(many_heads[0]["parameters"] / one_head[0]["parameters"]),
            "learned": proportion(accuracies[0], tested),
            "better": proportion_difference(accuracies[0], accuracies[1], tested),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        cost = [
            [
                heads,
                f"{count:,}",
                str(interval([1000 * second for second in evidence["seconds"][heads]])),
            ]
            for heads, count in evidence["operations"].items()
        ]
        results = [
            [f"keys: {keys}, heads: {heads}"]
            + [f"{arm[0]['parameters']:,}"]
            + [str(interval([run[name] for run in arm])) for name in ("accuracy", "least")]
            for keys in self.keys
            for heads in self.heads
            for arm in [_runs(evidence, heads, keys)]
        ]
        accuracy = {
            f"heads: {heads}": {
                float(keys): interval([run["accuracy"] for run in _runs(evidence, heads, keys)])
                for keys in self.keys
            }
            for heads in self.heads
        }
        curves = {
            f"heads: {heads}": {
                float(round((index + 1) * self.steps / len(values[0]))): interval(list(by_seed))
                for index, by_seed in enumerate(zip(*values, strict=True))
            }
            for heads in self.heads
            for values in [[run["curve"] for run in _runs(evidence, heads, max(self.keys))]]
        }
        title = f"Attention of size {self.cost_dim}, {BATCH} × {self.cost_length} tokens"
        return [
            Table(title, ["heads", "operations", "milliseconds, forward and backward"], cost),
            Table(
                "Several keys at once",
                ["", "parameters", "accuracy", "smallest best weight on a key"],
                results,
            ),
            Plot("Several keys at once", "keys", "accuracy", accuracy),
            Plot(f"Training with {max(self.keys)} keys", "step", "loss", curves),
        ]


def _runs(evidence: Evidence, heads: int, keys: int) -> list[dict[str, Any]]:
    """Return the results with a number of heads and keys, by seed."""
    return [run for run in evidence["trained"] if (run["heads"], run["keys"]) == (heads, keys)]


def _operations(run: Callable[[], None]) -> int:
    """Count the operations of the matrix products of one pass; a multiply-add counts as two."""
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


@torch.no_grad()
def _smallest_best_weight(model: nn.Module, ids: Tensor, keys: int) -> float:
    """Return the weight of the best head for each queried key: the smallest of these, averaged."""
    with watch(model, {"weights"}) as seen:
        model(ids)
    weights = seen.weights(ATTENTION)[:, :, -1, :KEYS]  # from the question, (B, H, S)
    question = ids[:, -1] - KEYS * VALUES
    queried = torch.stack([question // KEYS**digit % KEYS for digit in range(keys)], dim=1)
    positions = (
        (ids[:, None, :KEYS] // VALUES == queried[:, :, None]).float().argmax(-1)
    )  # (B, queried keys)
    return float(weights.max(1).values.gather(1, positions).min(1).values.mean())
