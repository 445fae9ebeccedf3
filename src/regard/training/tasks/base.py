"""Base class of the tasks: the data, loss, metrics and predictor that a model is trained for."""

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
    """The result of a task for the run folder: predictor, model card and details."""

    predictor: Any  # as `regard.load` would return it
    title: str  # of the card
    card: str  # its sections on scores and usage
    details: Mapping[str, Any]  # settings that loading needs, and the scores
    extra_files: Mapping[str, str] = field(default_factory=dict)  # that the predictor needs
    documents: Mapping[str, str] = field(default_factory=dict)  # for people: tables, pictures
    summary: str = ""  # its scores in one line, printed at the end


class BoundTask(Protocol):
    """A task bound to the data of one recipe: the interface of the training loop."""

    metric: str  # which score decides what is best
    unit: str  # of what it learns from, in the plural: tokens, texts
    targets_per_unit: int  # predictions of a batch that are one unit

    def model(self) -> ModelSpec:
        """Return the spec of the recipe's model, adapted to the data."""
        ...

    def batches(self, position: DataCursor) -> Iterator[tuple[Batch, DataCursor]]:
        """Yield batches from a position on, without end, each with the position after it."""
        ...

    def epochs(self, position: DataCursor) -> float:
        """Return the number of passes over the training data before a position."""
        ...

    def tokens_per_epoch(self) -> int:
        """Return the number of tokens of one pass over the training data, estimated."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """Return the loss, summed over the tokens of the batch."""
        ...

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Return scores on the dev data, `metric` among them."""
        ...

    def evaluated_fraction(self) -> float:
        """Return the fraction of the dev data that `evaluate` reads or decodes."""
        ...

    def predictor(self, model: nn.Module) -> Any:
        """Return the model with its tokenizer, as `regard.load` would."""
        ...

    def final_evaluation(self, model: nn.Module, report: "Reporter") -> TaskResult:
        """Evaluate the trained model, on the test data if there are any."""
        ...


class TaskSpec(Kind, package="regard.training.tasks", default="translation"):
    """A task kind."""

    renamed_kinds: ClassVar[Mapping[str, str]] = {"masked": "masked-lm", "span": "span-corruption"}

    record_type: ClassVar[RecordType]  # of the data it needs
    requires: ClassVar[Capability]  # of the model
    default_model: ClassVar[str]  # the kind of a recipe that names none
    metric_types: ClassVar[tuple[type[Metric], ...]]  # it computes all metrics of these types
    default_metric: ClassVar[str]  # selects the best checkpoint, unless the recipe names another

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """Special tokens that the tokenizer needs for this task: mask for <mask>."""
        return ()

    def length_limits(self, model: ModelSpec) -> LengthLimits:
        """Return how long records may be, and whether longer ones are cut."""
        return LengthLimits(single_sequence=model.single_sequence)

    def check(self, model: ModelSpec, record_type: RecordType, metric: str | None) -> None:
        """Raise ValueError if the task does not fit the model, the data or the metric."""
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
        """Return the task bound to prepared data."""
        raise NotImplementedError


def kinds_supporting(capability: Capability) -> list[str]:
    """Names of the model kinds that have a capability."""
    models = cast("list[type[ModelSpec]]", kind_specs(ModelSpec.package))
    return [model.kind() for model in models if capability in model.capabilities]
