"""Classification: labelled texts in, cross-entropy over their labels, accuracy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batching import UNCOUNTED, Batches, LabelledBatch, labelled_batches
from regard.data.prepare import Prepared
from regard.data.sampling import Position, Rows
from regard.data.sources import Shape
from regard.data.store import Store
from regard.decoding.labeller import Labeller
from regard.errors import DataError
from regard.models.kind import ModelSpec
from regard.training.distributed import World
from regard.training.jobs import Finished, JobSpec
from regard.training.progress import Reporter

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class Classification:
    def __init__(self, recipe: "Recipe", prepared: Prepared) -> None:
        self.recipe, self.prepared = recipe, prepared
        self.metric = recipe.job.metric(recipe)
        if len(prepared.labels) < 2:
            raise DataError(
                f"data.train: there is only one label, {prepared.labels[0]!r}; "
                f"a classifier needs at least two."
            )
        spec = recipe.training
        self._training = self._batches(prepared.train, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        """With as many classes as the training data have labels."""
        return self.recipe.model.model_copy(update={"classes": len(self.prepared.labels)})

    def batches(self, position: Position) -> Iterator[tuple[LabelledBatch, Position]]:
        return self._training.since(position)

    def loss(self, model: nn.Module, batch: LabelledBatch) -> Tensor:
        smoothing = self.recipe.training.label_smoothing
        logits = model(batch.ids, batch.padding)
        return F.cross_entropy(
            logits,
            batch.labels,
            ignore_index=UNCOUNTED,
            label_smoothing=smoothing,
            reduction="sum",
        )

    def measure(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._judge(model, self.prepared.dev, world.device)

    def product(self, model: nn.Module) -> Labeller:
        labels, length = self.prepared.labels, self.recipe.model.max_length
        return Labeller(model, self.prepared.tokenizer, labels, length)

    def finish(self, model: nn.Module, report: Reporter) -> Finished:
        part, store = self.prepared.judged
        with report.busy(f"Scoring on {part} …"):
            scores = self._judge(model, store, next(model.parameters()).device)
        labels, length = self.prepared.labels, self.recipe.model.max_length
        return Finished(
            product=self.product(model),
            title=f"A classifier: {', '.join(labels[:10])}",
            card=f"| {part} texts | accuracy | loss |\n|---|---|---|\n"
            f"| {len(store):,} | {scores['accuracy']:.1%} | {scores['loss']:.4f} |\n",
            details={
                "labels": list(labels),
                "max_length": length,
                "scores": scores,
                "scored_on": part,
            },
        )

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, LabelledBatch]:
        return labelled_batches(store, self.prepared.tokenizer, budget, seed)

    @torch.no_grad()
    def _judge(self, model: nn.Module, store: Store, device: torch.device) -> dict[str, float]:
        total, right, texts = 0.0, 0, 0
        budget = max(self.recipe.training.batch_tokens, self.recipe.model.max_length)
        for batch in self._batches(store, budget, seed=0).epoch():
            here = batch.to(device)
            logits = model(here.ids, here.padding)
            total += float(F.cross_entropy(logits, here.labels, reduction="sum"))
            right += int((logits.argmax(-1) == here.labels).sum())
            texts += batch.tokens
        return {"accuracy": right / texts, "loss": total / texts}


class Spec(JobSpec):
    """job: classification"""

    shape: ClassVar[Shape] = "labelled"
    does: ClassVar[str] = "classify"
    measures: ClassVar[tuple[str, ...]] = ("accuracy", "loss")

    def task(self, recipe: "Recipe", prepared: Prepared) -> Classification:
        return Classification(recipe, prepared)
