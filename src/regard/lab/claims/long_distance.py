"""What was long ago is hard to learn for a recurrent model: its gradient fades on the way."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.lab import tasks
from regard.lab.claim import Claim, Criterion, Evidence
from regard.lab.experiment import Experiment
from regard.lab.figures import Figure, Plot, Table
from regard.lab.gradients import by_position
from regard.lab.intervals import Interval, interval, ratio
from regard.lab.sizing import sized
from regard.models.base import parameter_count

SYMBOLS = 8  # one of which is to be remembered
VOCABULARY = SYMBOLS + 2
FRESH = 100  # the first seed: settings were tried on smaller ones
TRAINED = 16  # rows in each step
TESTED = 256
FAINT = 1e-12  # where less of the gradient is left, or nothing, it counts as this


Found = Mapping[str, Mapping[float, Interval]]  # by arm and distance


class Arm(NamedTuple):
    settings: Mapping[str, Any]
    multiple: int = 1  # of which its size is


ARMS = {
    "recurrent": Arm({"kind": "recurrent"}),
    "windows": Arm({"kind": "convolutional", "layers": 4, "window": 5}),
    "attention": Arm({"kind": "language-model", "layers": 1, "heads": 4}, multiple=4),
}


class Spec(Claim):
    number: ClassVar[int] = 1
    title: ClassVar[str] = "Long-distance dependencies are hard for recurrence"
    statement: ClassVar[str] = (
        "Recurrent models learn long-distance dependencies with difficulty, since gradients have "
        "to go through every step between; attention looks at any distance at once."
    )
    experiment: ClassVar[str] = (
        "A symbol, silence, and a mark: the model has to say the symbol, one of eight. A recurrent "
        "model (a gated unit), word windows that reach 16 words and one layer of attention, with "
        "as many parameters (within 5 %), learn it from the same rows in as many steps, anew for "
        "every distance between symbol and mark, each at its best of two learning rates by the "
        "loss at the end of training. Beside what is recalled in the end, the size of the gradient "
        "of the answer at the symbol is taken over that at the word just before the mark, before "
        "training and after. The task was found by trial, on other seeds: with one head, or with "
        "random words for silence, attention often did not learn the longest distance in as many "
        "steps."
    )
    criteria: ClassVar[Mapping[str, Criterion]] = {
        "recurrent_near": Criterion("recalled at the shortest distance, recurrent", at_least=0.8),
        "recurrent_far": Criterion("recalled at the longest distance, recurrent", at_most=0.5),
        "attention_far": Criterion("recalled at the longest distance, attention", at_least=0.8),
        "windows_far": Criterion("recalled at the longest distance, windows", at_most=0.25),
        "recurrent_gradient": Criterion(
            "gradient far over near at the longest distance, before training, recurrent",
            at_most=0.01,
        ),
        "attention_gradient": Criterion("the same, attention", at_least=0.1),
    }
    quick: ClassVar[Mapping[str, Any]] = {
        "distances": (4, 24),
        "parameters": 5_100,
        "steps": 40,
        "rates": (0.01,),
        "seeds": 2,
    }

    distances: tuple[Annotated[int, Field(gt=1)], ...] = Field(
        (10, 30, 100, 500), min_length=2, description="from the symbol to the mark, each of them"
    )
    parameters: int = Field(16_500, gt=0, description="of each model, about")
    steps: int = Field(200, gt=0, description="of training, for each distance")
    rates: tuple[float, ...] = Field(
        (0.003, 0.01), min_length=1, description="learning rates to choose from"
    )

    def gather(self, experiment: Experiment) -> Evidence:
        rows: list[dict[str, Any]] = []
        counts: dict[str, int] = {}
        runs = self.seeds * len(ARMS) * len(self.distances) * len(self.rates)
        with experiment.plan(runs * self.steps):
            for name, arm in ARMS.items():
                common = {"dropout": 0.0, "max_length": max(self.distances) + 1}
                settings = {**arm.settings, **common}
                spec = sized(settings, self.parameters, VOCABULARY, arm.multiple)
                asked = product(range(FRESH, FRESH + self.seeds), self.distances, self.rates)
                for seed, distance, rate in asked:
                    torch.manual_seed(seed)
                    model = spec.build(VOCABULARY).to(experiment.device)
                    counts[name] = parameter_count(model)
                    told = {"arm": name, "seed": seed, "distance": distance, "rate": rate}
                    rows.append(told | self._learned(experiment, model, distance, seed, rate))
        return {"parameters": counts, "learned": rows}

    def _learned(
        self, experiment: Experiment, model: nn.Module, distance: int, seed: int, rate: float
    ) -> dict[str, Any]:
        def drawn(step: int, rows: int) -> tasks.Rows:
            ids, asked = tasks.recall(distance, SYMBOLS, seed, step, rows=rows)
            return tasks.Rows(ids.to(experiment.device), asked.to(experiment.device))

        def loss(model: nn.Module, step: int) -> Tensor:
            return tasks.loss(model, drawn(step, TRAINED))

        unseen = self.steps  # a step that is never trained on
        before = far_over_near(model.eval(), drawn(unseen, TRAINED))
        losses = experiment.fit(model, loss, self.steps, rate)
        return {
            "losses": losses,
            "recalled": tasks.accuracy(model, drawn(unseen, TESTED)),
            "gradient_before": before,
            "gradient_after": far_over_near(model, drawn(unseen, TRAINED)),
        }

    def weigh(self, evidence: Evidence) -> Mapping[str, Interval]:
        rows, near, far = evidence["learned"], min(self.distances), max(self.distances)
        return {
            "recurrent_near": interval(_column(rows, "recurrent", near, "recalled")),
            "recurrent_far": interval(_column(rows, "recurrent", far, "recalled")),
            "attention_far": interval(_column(rows, "attention", far, "recalled")),
            "windows_far": interval(_column(rows, "windows", far, "recalled")),
            "recurrent_gradient": _left(_column(rows, "recurrent", far, "gradient_before")),
            "attention_gradient": _left(_column(rows, "attention", far, "gradient_before")),
        }

    def show(self, evidence: Evidence) -> list[Figure]:
        rows, counts = evidence["learned"], evidence["parameters"]

        def found(how: Callable[[list[float]], Interval], name: str) -> Found:
            return {
                arm: {float(d): how(_column(rows, arm, d, name)) for d in self.distances}
                for arm in ARMS
            }

        recalled = found(interval, "recalled")
        before, after = (found(_left, f"gradient_{when}") for when in ("before", "after"))
        told = ", ".join(f"{arm} {count:,}" for arm, count in counts.items())
        what = "gradient far over near"
        return [
            _table(f"Recalled, of 1; by chance {1 / SYMBOLS:g} (parameters: {told})", recalled),
            _table(f"The {what}, before training", before),
            _table(f"The {what}, after training", after),
            Plot("Recall", "distance", "recalled", recalled, log_x=True),
            Plot("Gradients before training", "distance", what, before, log_x=True, log_y=True),
        ]


def far_over_near(model: nn.Module, rows: tasks.Rows) -> float:
    """The gradient of the right answer's logit at the symbol, over that just before the mark."""
    ids, answer = rows.ids[:, :-1], rows.ids[:, -1]

    def right(logits: Tensor) -> Tensor:
        return logits[:, -1].gather(1, answer[:, None]).sum()

    far, near = by_position(model, ids, right)[:, [0, -2]].mean(0).tolist()
    return float(far / near)


def _table(title: str, found: Found) -> Table:
    distances = [f"{each:g}" for each in next(iter(found.values()))]
    rows = [[arm, *map(str, by_distance.values())] for arm, by_distance in found.items()]
    return Table(title, ["distance", *distances], rows)


def _column(rows: list[dict[str, Any]], arm: str, distance: int, name: str) -> list[float]:
    """By seed, at the rate by which the loss in the end is the least."""
    by_rate: dict[float, list[dict[str, Any]]] = {}
    for row in rows:
        if (row["arm"], row["distance"]) == (arm, distance):
            by_rate.setdefault(row["rate"], []).append(row)
    best = min(by_rate.values(), key=lambda runs: sum(run["losses"][-1] for run in runs))
    return [run[name] for run in best]


def _left(ratios: list[float]) -> Interval:
    """The geometric mean: what is left of a gradient spans many orders of magnitude."""
    return ratio([max(FAINT, each) for each in ratios], [1.0] * len(ratios))
