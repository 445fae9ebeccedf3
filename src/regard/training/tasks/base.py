"""What a model is trained for, one file a kind: its data, its loss, its scores, its run folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from torch import Tensor, nn

from regard.config import Kind, kind_specs
from regard.data.records import Intake
from regard.data.sampling.sampler import Position
from regard.data.sources.base import Shape
from regard.errors import ConfigError
from regard.models.base import ModelSpec
from regard.training.distributed.world import World
from regard.training.learner import Batch

if TYPE_CHECKING:
    from regard.data.store.prepare import Prepared
    from regard.training.recipe import Recipe
    from regard.training.reporting.progress import Reporter


@dataclass(frozen=True)
class Finished:
    """What the job has to say of a trained model, for its run folder and its card."""

    product: Any  # the model ready to do its job, as `regard.load` would give it
    title: str  # of the card
    card: str  # what it says of the scores, and how to use the model
    details: Mapping[str, Any]  # what loading needs, and the scores
    parts: Mapping[str, str] = field(default_factory=dict)
    papers: Mapping[str, str] = field(default_factory=dict)  # for people: tables, pictures


class Task(Protocol):
    """A job on the data of one recipe: what the training loop asks."""

    metric: str  # which score decides what is best

    def model(self) -> ModelSpec:
        """The recipe's model, made to fit the data."""
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


class JobSpec(Kind, package="regard.training.tasks", default="translation"):
    """A kind of job."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {"masked": "masked-lm", "span": "span-corruption"}

    shape: ClassVar[Shape]  # of the data it needs
    does: ClassVar[str]  # what the model must be able to do
    measures: ClassVar[tuple[str, ...]]  # on dev data; the first decides what is best, unless said

    @property
    def marks(self) -> tuple[str, ...]:
        """Pieces that the tokeniser needs for this job: mask for <mask>."""
        return ()

    def intake(self, model: ModelSpec) -> Intake:
        """How much of a record the model is given."""
        return Intake(joined=model.joined)

    def check(self, model: ModelSpec, shape: Shape, metric: str | None) -> None:
        """Refuse, before anything is read, what cannot go together."""
        if shape != self.shape:
            raise ValueError(
                f"data: the job {self.kind()} needs sources of shape {self.shape}, and these are "
                f"of shape {shape}"
            )
        if self.does not in model.can:
            others = " or ".join(able(self.does))
            raise ValueError(
                f"model: a {model.kind()} cannot be trained to {self.does}; use {others}"
            )
        try:
            model.meant_for(self.does)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if metric is not None and metric not in self.measures:
            raise ValueError(
                f"training.evaluation.metric: {metric} is not measured in {self.kind()}; choose "
                f"one of {', '.join(self.measures)}"
            )

    def metric(self, recipe: "Recipe") -> str:
        """The one that decides which weights are best."""
        return recipe.training.evaluation.metric or self.measures[0]

    def task(self, recipe: "Recipe", prepared: "Prepared") -> Task:
        raise NotImplementedError


def able(does: str) -> list[str]:
    """The kinds of model that can do this."""
    models = cast("list[type[ModelSpec]]", kind_specs(ModelSpec.package))
    return [model.kind() for model in models if does in model.can]
