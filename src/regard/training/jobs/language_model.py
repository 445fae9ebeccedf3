"""Language modelling: running text in windows, cross-entropy over every next word."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor, nn

from regard.data.batching import TextBatch, text_batches, text_in_order
from regard.data.prepare import Prepared
from regard.data.sampling import Position
from regard.data.sources import Shape
from regard.data.store import Store
from regard.decoding.writer import Writer
from regard.models.kind import ModelSpec
from regard.models.language_model import LanguageModel
from regard.training.distributed import World
from regard.training.jobs import Finished, JobSpec
from regard.training.objectives import predict
from regard.training.progress import Reporter

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class LanguageModelling:
    def __init__(self, recipe: "Recipe", prepared: Prepared) -> None:
        self.recipe, self.prepared = recipe, prepared
        self.metric = recipe.job.metric(recipe)
        spec = recipe.training
        self._training = text_batches(prepared.train, self._context, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        return self.recipe.model

    def batches(self, position: Position) -> Iterator[tuple[TextBatch, Position]]:
        return self._training.since(position)

    def loss(self, model: nn.Module, batch: TextBatch) -> Tensor:
        writing = cast("LanguageModel", model)
        words = batch.ids[:, 1:]
        states = writing.states(batch.ids[:, :-1])
        smoothing = self.recipe.training.label_smoothing
        return predict(writing, states, words, batch.padding[:, 1:], smoothing)

    def measure(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._judge(model, self.prepared.dev, world.device)

    def product(self, model: nn.Module) -> Writer:
        return Writer(cast("LanguageModel", model), self.prepared.tokenizer, self._context)

    def finish(self, model: nn.Module, report: Reporter) -> Finished:
        part, store = self.prepared.judged
        with report.busy(f"Scoring on {part} …"):
            scores = self._judge(model, store, next(model.parameters()).device)
        perplexity = math.exp(scores["loss"])
        return Finished(
            product=self.product(model),
            title="A language model",
            card=f"| {part} loss per token | perplexity | next tokens right |\n|---|---|---|\n"
            f"| {scores['loss']:.4f} | {perplexity:.2f} | {scores['accuracy']:.1%} |\n",
            details={
                "max_length": self._context,
                "scores": {**scores, "perplexity": perplexity},
                "scored_on": part,
            },
        )

    @property
    def _context(self) -> int:
        return self.recipe.model.max_length

    @torch.no_grad()
    def _judge(self, model: nn.Module, store: Store, device: torch.device) -> dict[str, float]:
        """Loss without smoothing, and how often the likeliest next word is the right one."""
        total, right, tokens = 0.0, 0, 0
        budget, filler = self.recipe.training.batch_tokens, self.prepared.tokenizer.pad
        for batch in text_in_order(store, self._context, budget, filler):
            here = batch.to(device)
            real = here.padding[:, 1:]
            logits, words = model(here.ids[:, :-1])[real], here.ids[:, 1:][real]
            total += float(nn.functional.cross_entropy(logits, words, reduction="sum"))
            right += int((logits.argmax(-1) == words).sum())
            tokens += batch.tokens
        return {"loss": total / tokens, "accuracy": right / tokens}


class Spec(JobSpec):
    """job: language-model"""

    shape: ClassVar[Shape] = "text"
    does: ClassVar[str] = "continue text"
    measures: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    def task(self, recipe: "Recipe", prepared: Prepared) -> LanguageModelling:
        return LanguageModelling(recipe, prepared)
