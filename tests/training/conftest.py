"""What the tests of this room share: a task that is learned in milliseconds, and a tiny recipe."""

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
    """A batch: what is given (B, SIZE), and what is to be found."""

    given: Tensor
    wanted: Tensor

    @property
    def num_targets(self) -> int:
        return len(self.given)

    @property
    def num_tokens(self) -> int:
        return self.num_targets

    def to(self, device: torch.device) -> "Points":
        return Points(self.given.to(device), self.wanted.to(device))

    def shard(self, rank: int, size: int) -> "Points":
        return Points(self.given[rank::size], self.wanted[rank::size])


class Toy:
    """A task: vectors are to be turned round.

    Batches whose number is in `poisoned` have no finite loss; `scores` are what the looks at the
    dev data find, one after the other, where they are not to be measured.
    """

    metric = "loss"

    def __init__(self, poisoned: Sequence[int] = (), scores: Sequence[float] = ()) -> None:
        self.poisoned, self.scores = poisoned, list(scores)

    def model(self) -> Any:
        return nn.Sequential(nn.Linear(SIZE, 8), nn.Tanh(), Dropout(0.1), nn.Linear(8, SIZE))

    def batch(self, number: int) -> Points:
        given = torch.randn(16, SIZE, generator=torch.Generator().manual_seed(number))
        fate = float("nan") if number in self.poisoned else 1.0
        return Points(given * fate, given.flip(-1))

    def batches(self, position: DataCursor) -> Iterator[tuple[Points, DataCursor]]:
        number = position.batch
        while True:
            number += 1
            yield self.batch(number), DataCursor(batch=number)

    def loss(self, model: nn.Module, batch: Points) -> Tensor:
        return (model(batch.given) - batch.wanted).square().sum()

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
    """A learner of a toy task, given settings of training."""

    def make(task: Toy | None = None, **settings: Any) -> Learner:
        task = task or Toy()
        spec = validate(TrainingSpec, {"steps": 100, **settings}, "recipe")
        torch.manual_seed(spec.seed)
        return Learner(task.model(), task.loss, spec, World())

    return make


MakeRecipe = Callable[..., Recipe]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> MakeRecipe:
    """A recipe for a translator that is trained in a second or two, with changes made to it."""
    prepared = tmp_path_factory.mktemp("prepared")

    def make(*changes: str) -> Recipe:
        return make_recipe(tiny_recipe(prepared), changes, "recipe")

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


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)
