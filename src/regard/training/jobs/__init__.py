"""What a model is trained for, one file a kind: its data, its loss, its scores, its run folder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from torch import Tensor, nn

from regard.config import Kind
from regard.data.sampling import Position
from regard.data.sources import Shape
from regard.errors import ConfigError
from regard.models.kind import ModelSpec
from regard.training.distributed import World
from regard.training.learner import Batch

if TYPE_CHECKING:
    from regard.data.prepare import Prepared
    from regard.training.progress import Reporter
    from regard.training.recipe import Recipe


@dataclass(frozen=True)
class Finished:
    """What the job has to say of a trained model, for its run folder and its card."""

    product: Any  # the model ready to do its job, as `regard.load` would give it
    title: str  # of the card
    card: str  # what it says of the scores, and how to use the model
    details: Mapping[str, Any]  # what loading needs, and the scores
    parts: Mapping[str, str] = field(default_factory=dict)


def chosen_metric(recipe: "Recipe", measured: Sequence[str]) -> str:
    """The recipe's, if the job measures it; the job's first one where the recipe names none."""
    metric = recipe.training.evaluation.metric or measured[0]
    if metric not in measured:
        raise ConfigError(
            f"training.evaluation.metric: {metric} is not measured in {recipe.job.kind()}; "
            f"choose one of {', '.join(measured)}."
        )
    return metric


class Task(Protocol):
    """A job on the data of one recipe: what the training loop asks."""

    metric: str  # which score decides what is best

    def model(self) -> ModelSpec:
        """The recipe's model, made to fit the data; refuses one that cannot do the job."""
        ...

    def batches(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        """Batches without end from a position on, each with the position after it."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss summed over the tokens of the batch."""
        ...

    def measure(self, model: nn.Module, world: World) -> dict[str, float]:
        """Scores on the dev data, `metric` among them."""
        ...

    def product(self, model: nn.Module) -> Any:
        """The model ready to do its job, as `regard.load` would give it."""
        ...

    def finish(self, model: nn.Module, report: "Reporter") -> Finished:
        """The last judgement, on the test data where there are any."""
        ...


class JobSpec(Kind, room="regard.training.jobs", default="translation"):
    """A kind of job."""

    shape: ClassVar[Shape]  # of the data it needs

    def task(self, recipe: "Recipe", prepared: "Prepared") -> Task:
        raise NotImplementedError
