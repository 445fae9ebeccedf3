"""What a model is trained for, one file a kind: its data, its loss, its scores, its run folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from torch import Tensor, nn

from regard.config import Kind, kind_specs
from regard.data.records import LengthLimits
from regard.data.sampling.sampler import DataCursor
from regard.data.sources.base import RecordType
from regard.errors import ConfigError
from regard.evaluation.base import Metric, metrics_of
from regard.models.base import Capability, ModelSpec
from regard.training.distributed.world import World
from regard.training.learner import Batch

if TYPE_CHECKING:
    from regard.data.store.prepare import Prepared
    from regard.training.recipe import Recipe
    from regard.training.reporting.progress import Reporter


@dataclass(frozen=True)
class TaskResult:
    """What the job has to say of a trained model, for its run folder and its card."""

    predictor: Any  # the model ready to do its job, as `regard.load` would give it
    title: str  # of the card
    card: str  # what it says of the scores, and how to use the model
    details: Mapping[str, Any]  # what loading needs, and the scores
    extra_files: Mapping[str, str] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)  # for people: tables, pictures


class BoundTask(Protocol):
    """A job on the data of one recipe: what the training loop asks."""

    metric: str  # which score decides what is best

    def model(self) -> ModelSpec:
        """The recipe's model, made to fit the data."""
        ...

    def batches(self, position: DataCursor) -> Iterator[tuple[Batch, DataCursor]]:
        """Batches without end from a position on, each with the position after it."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss summed over the tokens of the batch."""
        ...

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Scores on the dev data, `metric` among them."""
        ...

    def predictor(self, model: nn.Module) -> Any:
        """The model ready to do its job, as `regard.load` would give it."""
        ...

    def final_evaluation(self, model: nn.Module, report: "Reporter") -> TaskResult:
        """The last judgement, on the test data where there are any."""
        ...


class TaskSpec(Kind, package="regard.training.tasks", default="translation"):
    """A kind of job."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {"masked": "masked-lm", "span": "span-corruption"}

    record_type: ClassVar[RecordType]  # of the data it needs
    requires: ClassVar[Capability]  # of the model
    metric_types: ClassVar[tuple[type[Metric], ...]]  # it computes all metrics of these types
    default_metric: ClassVar[str]  # selects the best checkpoint, unless the recipe names another

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Pieces that the tokeniser needs for this task: mask for <mask>."""
        return ()

    def length_limits(self, model: ModelSpec) -> LengthLimits:
        """How much of a record the model is given."""
        return LengthLimits(single_sequence=model.single_sequence)

    def check(self, model: ModelSpec, record_type: RecordType, metric: str | None) -> None:
        """Refuse, before anything is read, what cannot go together."""
        if record_type != self.record_type:
            raise ValueError(
                f"data: the task {self.kind()} needs sources of type {self.record_type}, "
                f"and these are of type {record_type}"
            )
        if self.requires not in model.capabilities:
            others = " or ".join(kinds_supporting(self.requires))
            raise ValueError(
                f"model: the task {self.kind()} requires the capability {self.requires}, and a "
                f"{model.kind()} does not have it; use {others}"
            )
        try:
            model.for_capability(self.requires)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if metric is not None and metric not in self.metrics():
            raise ValueError(
                f"training.evaluation.metric: {metric} is not measured in {self.kind()}; choose "
                f"one of {', '.join(self.metrics())}"
            )

    def metric(self, recipe: "Recipe") -> str:
        """Name of the metric that selects the best checkpoint."""
        return recipe.training.evaluation.metric or self.default_metric

    @classmethod
    def metrics(cls) -> list[str]:
        """Names of the metrics that the task can compute on the dev data."""
        return sorted({metric.name for base in cls.metric_types for metric in metrics_of(base)})

    def bind(self, recipe: "Recipe", prepared: "Prepared") -> BoundTask:
        raise NotImplementedError


def kinds_supporting(capability: Capability) -> list[str]:
    """Names of the model kinds that have a capability."""
    models = cast("list[type[ModelSpec]]", kind_specs(ModelSpec.package))
    return [model.kind() for model in models if capability in model.capabilities]
