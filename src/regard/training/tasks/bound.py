"""Base classes of bound tasks: batches of the prepared data, losses and scores on them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.data.batches.base import Batch, Batches
from regard.data.batches.pairs import PairBatch
from regard.data.sampling.sampler import DataCursor
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.evaluation.base import metric_named
from regard.models.base import ModelSpec
from regard.training.distributed.world import World
from regard.training.loss import Seq2SeqModel, TokenMetrics, mean_loss, seq2seq_loss
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import TaskResult

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

B = TypeVar("B", bound=Batch)


class BatchTask(ABC, Generic[B]):
    """A task that trains on batches of type B.

    A subclass sets what `_batches` needs before it calls `__init__`.
    """

    unit = "target tokens"
    targets_per_unit: int = 1

    def __init__(self, recipe: "Recipe", prepared: Prepared) -> None:
        self.recipe, self.prepared = recipe, prepared
        self.metric = recipe.task.metric(recipe)
        spec = recipe.training
        self._training = self._batches(prepared.train, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        return self.recipe.model.for_capability(self.recipe.task.requires)

    def batches(self, position: DataCursor) -> Iterator[tuple[B, DataCursor]]:
        return self._training.iter_from(position)

    def epochs(self, position: DataCursor) -> float:
        return self._training.epochs(position)

    def tokens_per_epoch(self) -> int:
        return self._training.per_epoch() * self.recipe.training.batch_tokens

    def evaluated_fraction(self) -> float:
        return 1.0

    @abstractmethod
    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Any, B]:
        """Return the batches of a split, of `budget` tokens each."""

    def _in_order(self, store: Store, longest: int) -> Batches[Any, B]:
        """Return batches to evaluate on, the same each time and for every seed of training.

        `longest` is the number of tokens of the longest example, which must fit a batch.
        """
        return self._batches(store, max(self.recipe.training.batch_tokens, longest), seed=0)


class Seq2SeqTask(BatchTask[PairBatch]):
    """A task that predicts the target of pairs."""

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        smoothing = self.recipe.training.label_smoothing
        return seq2seq_loss(cast("Seq2SeqModel", model), batch, smoothing)

    def evaluated_fraction(self) -> float:
        return min(1.0, self.recipe.training.evaluation.limit / len(self.prepared.dev))

    def _mean_loss(
        self, model: nn.Module, store: Store, longest: int, device: torch.device
    ) -> float:
        """Return the loss per target token of a split, without smoothing."""
        batches = self._in_order(store, longest).epoch()
        return mean_loss(cast("Seq2SeqModel", model), batches, device)


class CorruptionTask(BatchTask[B]):
    """A task that predicts the tokens that were removed from a text."""

    title: str  # of the model card
    target: str  # that the loss refers to, in the model card

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._scores(model, self._dev, world.device)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        split, store = self.prepared.final_split
        device = next(model.parameters()).device
        batches = self._evaluation_batches(store)
        with report.bar(f"Scoring on {split}", batches.per_epoch(), "batches") as advance:
            scores = self._scores(model, batches, device, advance)
        return TaskResult(
            predictor=self.predictor(model),
            title=self.title,
            card=f"| {split} loss per {self.target} | perplexity | right |\n|---|---|---|\n"
            f"| {scores['loss']:.4f} | {scores['perplexity']:.2f} | {scores['accuracy']:.1%} |\n\n"
            f'    regard fill THIS-FOLDER "The [MASK] crossed the street"\n',
            details={
                "max_length": self.recipe.model.max_length,
                **self._details(),
                "scores": scores,
                "scored_on": split,
            },
            summary=summary(scores, split),
        )

    @abstractmethod
    def predictor(self, model: nn.Module) -> Any: ...

    @abstractmethod
    def _predictions(self, model: nn.Module, batch: B) -> tuple[Tensor, Tensor]:
        """Return logits (N, V) and labels (N,) of all tokens to predict."""

    def _details(self) -> Mapping[str, Any]:
        """Return further details that loading needs."""
        return {}

    @cached_property
    def _dev(self) -> Batches[Any, B]:
        return self._evaluation_batches(self.prepared.dev)

    def _evaluation_batches(self, store: Store) -> Batches[Any, B]:
        return self._in_order(store, self.recipe.model.max_length)

    @torch.no_grad()
    def _scores(
        self,
        model: nn.Module,
        batches: Batches[Any, B],
        device: torch.device,
        advance: Callable[[int], None] = lambda _: None,
    ) -> dict[str, float]:
        metrics = TokenMetrics()
        for batch in batches.epoch():
            metrics.add(*self._predictions(model, batch.to(device)))
            advance(1)
        return metrics.scores()


def summary(scores: Mapping[str, float], split: str) -> str:
    """Return scores in one line, by the names of their metrics."""
    metrics = [metric_named(name) for name in scores]
    values = [f"{metric.label} {metric.show(scores[metric.name])}" for metric in metrics]
    return f"{split}: {', '.join(values)}."
