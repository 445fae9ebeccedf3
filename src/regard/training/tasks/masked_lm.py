"""Masked language modelling: text with words hidden, cross-entropy over these, and these alone."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.corrupted import MaskedBatch, masked_batches
from regard.data.batches.masking import Masking
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import DataCursor, EpochSelection, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError
from regard.evaluation.base import Metric
from regard.evaluation.tokens import TokenMetric
from regard.models.base import Capability, ModelSpec
from regard.models.masked_lm import MaskedLM
from regard.predictors.mask_filler import MaskFiller
from regard.training.distributed.world import World
from regard.training.loss import TokenMetrics, lm_head_loss
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import TaskResult, TaskSpec

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

AROUND = 2  # tokens beside those of the text: a start and an end


class MaskedModelling:
    def __init__(self, recipe: "Recipe", prepared: Prepared, masking: Masking) -> None:
        self.recipe, self.prepared, self.masking = recipe, prepared, masking
        self.metric = recipe.task.metric(recipe)
        self._room = recipe.model.max_length - AROUND
        if self._room < 1:
            raise ConfigError(
                f"model.max_length: {recipe.model.max_length} tokens leave no room for text "
                f"between a start and an end; raise it."
            )
        spec = recipe.training
        self._training = self._batches(prepared.train, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        return self.recipe.model.for_capability(self.recipe.task.requires)

    def batches(self, position: DataCursor) -> Iterator[tuple[MaskedBatch, DataCursor]]:
        return self._training.iter_from(position)

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Tensor:
        filling, chosen = cast("MaskedLM", model), batch.masked_positions
        states = filling.states(batch.ids, batch.token_mask, chosen)
        words = batch.labels[chosen]
        everywhere = torch.ones_like(words, dtype=torch.bool)
        return lm_head_loss(
            filling, states, words, everywhere, self.recipe.training.label_smoothing
        )

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._judge(model, self._dev, world.device)

    def predictor(self, model: nn.Module) -> MaskFiller:
        length = self.recipe.model.max_length
        return MaskFiller(cast("MaskedLM", model), self.prepared.tokenizer, length)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        part, store = self.prepared.final_split
        with report.busy(f"Scoring on {part} …"):
            scores = self._judge(model, self._in_order(store), next(model.parameters()).device)
        return TaskResult(
            predictor=self.predictor(model),
            title="A model that fills blanks",
            card=f"| {part} loss per hidden piece | perplexity | right |\n|---|---|---|\n"
            f"| {scores['loss']:.4f} | {scores['perplexity']:.2f} | {scores['accuracy']:.1%} |\n\n"
            f'    regard fill THIS-FOLDER "The [MASK] crossed the street"\n',
            details={
                "max_length": self.recipe.model.max_length,
                "scores": scores,
                "scored_on": part,
            },
        )

    def _batches(
        self, store: Store, budget: int, seed: int
    ) -> Batches[EpochSelection[Rows], MaskedBatch]:
        tokenizer = self.prepared.tokenizer
        passages = Passages(store, tokenizer.end, self._room)
        return masked_batches(passages, tokenizer, self.masking, budget, seed)

    @cached_property
    def _dev(self) -> Batches[EpochSelection[Rows], MaskedBatch]:
        return self._in_order(self.prepared.dev)

    def _in_order(self, store: Store) -> Batches[EpochSelection[Rows], MaskedBatch]:
        """To score on: the same masks at every look, whatever the seed of training."""
        budget = max(self.recipe.training.batch_tokens, self.recipe.model.max_length)
        return self._batches(store, budget, seed=0)

    @torch.no_grad()
    def _judge(
        self,
        model: nn.Module,
        data: Batches[EpochSelection[Rows], MaskedBatch],
        device: torch.device,
    ) -> dict[str, float]:
        filling, guesses = cast("MaskedLM", model), TokenMetrics()
        for batch in data.epoch():
            here = batch.to(device)
            states = filling.states(here.ids, here.token_mask, here.masked_positions)
            guesses.add(filling.output(states), here.labels[here.masked_positions])
        return guesses.scores()


class Spec(TaskSpec):
    """task: {kind: masked-lm, whole_words: true}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "share": "mask_rate",
        "masked": "mask_token_rate",
        "random": "random_token_rate",
    }

    record_type: ClassVar[RecordType] = "text"
    requires: ClassVar[Capability] = "masked-lm"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (TokenMetric,)
    default_metric: ClassVar[str] = "loss"

    mask_rate: float = Field(
        0.15, gt=0, lt=1, description="fraction of the tokens of a text to predict"
    )
    mask_token_rate: float = Field(
        0.8, ge=0, le=1, description="fraction of these that is replaced by <mask>"
    )
    random_token_rate: float = Field(
        0.1, ge=0, le=1, description="fraction of these that is replaced by a random token"
    )
    whole_words: bool = Field(False, description="mask all tokens of a word together")

    @model_validator(mode="after")
    def _no_more_than_all(self) -> Self:
        if self.mask_token_rate + self.random_token_rate > 1:
            raise ValueError(
                f"mask_token_rate {self.mask_token_rate:g} and random_token_rate "
                f"{self.random_token_rate:g} add up to more than 1; lower one of them"
            )
        return self

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return ("mask",)

    def bind(self, recipe: "Recipe", prepared: Prepared) -> MaskedModelling:
        masking = Masking(
            prepared.tokenizer,
            self.mask_rate,
            self.mask_token_rate,
            self.random_token_rate,
            self.whole_words,
        )
        return MaskedModelling(recipe, prepared, masking)
