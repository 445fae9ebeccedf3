"""Fixtures of the training tests: a task learned in milliseconds, and a tiny recipe."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import validate
from regard.data.sampling.sampler import DataCursor
from regard.layers.dropout import Dropout
from regard.training.config import TrainingSpec
from regard.training.distributed.world import World
from regard.training.learner import Learner
from regard.training.recipe import Recipe, make_recipe
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import TaskResult

SIZE = 4


@dataclass(frozen=True)
class Points:
    """A batch of input and target vectors, (B, SIZE) each."""

    inputs: Tensor
    targets: Tensor

    @property
    def num_targets(self) -> int:
        return len(self.inputs)

    @property
    def num_tokens(self) -> int:
        return self.num_targets

    def to(self, device: torch.device) -> "Points":
        return Points(self.inputs.to(device), self.targets.to(device))

    def shard(self, rank: int, size: int) -> "Points":
        return Points(self.inputs[rank::size], self.targets[rank::size])


class Toy:
    """A task: reverse vectors.

    Batches whose number is in `poisoned` have no finite loss; evaluations return the losses in
    `scores`, one after the other, and then compute them.
    """

    metric = "loss"

    def __init__(self, poisoned: Sequence[int] = (), scores: Sequence[float] = ()) -> None:
        self.poisoned, self.scores = poisoned, list(scores)

    def model(self) -> Any:
        return nn.Sequential(nn.Linear(SIZE, 8), nn.Tanh(), Dropout(0.1), nn.Linear(8, SIZE))

    def batch(self, number: int) -> Points:
        inputs = torch.randn(16, SIZE, generator=torch.Generator().manual_seed(number))
        factor = float("nan") if number in self.poisoned else 1.0
        return Points(inputs * factor, inputs.flip(-1))

    def batches(self, position: DataCursor) -> Iterator[tuple[Points, DataCursor]]:
        number = position.batch
        while True:
            number += 1
            yield self.batch(number), DataCursor(batch=number)

    def loss(self, model: nn.Module, batch: Points) -> Tensor:
        return (model(batch.inputs) - batch.targets).square().sum()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        dev = self.batch(0)
        return {"loss": self.scores.pop(0) if self.scores else float(self.loss(model, dev))}

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        raise NotImplementedError


@pytest.fixture
def toy() -> type[Toy]:
    return Toy


MakeLearner = Callable[..., Learner]


@pytest.fixture
def make_learner() -> MakeLearner:
    """Make a learner of the toy task with some training settings."""

    def make(task: Toy | None = None, **settings: Any) -> Learner:
        task = task or Toy()
        spec = validate(TrainingSpec, {"steps": 100, **settings}, "recipe")
        torch.manual_seed(spec.seed)
        return Learner(task.model(), task.loss, spec, World())

    return make


MakeRecipe = Callable[..., Recipe]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> MakeRecipe:
    """Make a recipe for a translator that trains in a second or two, with overrides.

    All workers share the prepared data, which are written atomically.
    """
    base = tmp_path_factory.getbasetemp()
    prepared = (base if worker_id == "master" else base.parent) / "tiny-prepared"

    def make(*overrides: str) -> Recipe:
        return make_recipe(tiny_recipe(prepared), overrides, "recipe")

    return make


def tiny_recipe(prepared: Path) -> dict[str, Any]:
    grammar = {"kind": "grammar", "train_size": 300, "dev_size": 20, "pronouns_size": 20}
    return {
        "data": {
            "train": grammar,
            "dev": {**grammar, "split": "dev"},
            "prepared": str(prepared),
        },
        "tokenizer": {"vocabulary": 400},
        "model": {
            "kind": "encoder-decoder",
            "size": "tiny",
            "dim": 32,
            "ffn_dim": 64,
            "dropout": 0.1,
            "max_length": 64,
        },
        "training": {
            "steps": 40,
            "batch_tokens": 600,
            "checkpoint_every": 5,
            "evaluation": {"every": 20, "limit": 5},
        },
    }


@pytest.fixture(scope="module", autouse=True)
def placeholder_figures() -> Iterator[None]:
    """Write placeholders for the curves of a run: drawing takes most of the time of a short run.

    test_curves.py overrides this fixture and draws them.
    """
    with pytest.MonkeyPatch.context() as patch:
        figure = '<svg xmlns="http://www.w3.org/2000/svg"/>'
        patch.setattr("regard.training.reporting.curves.plot_lines", lambda *_: figure)
        yield


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)
