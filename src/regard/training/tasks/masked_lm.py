"""Masked language modeling: predict the tokens of a text that are masked, and only these."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.corrupted import MaskedBatch, masked_batches
from regard.data.batches.masking import Masking
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import EpochSelection, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError
from regard.evaluation.base import Metric
from regard.evaluation.tokens import TokenMetric
from regard.models.base import Capability
from regard.models.masked_lm import MaskedLM
from regard.predictors.mask_filler import MaskFiller
from regard.training.loss import lm_head_loss
from regard.training.tasks.base import TaskSpec
from regard.training.tasks.bound import CorruptionTask

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

SPECIAL_TOKENS = 2  # start and end of a text


class MaskedModeling(CorruptionTask[MaskedBatch]):
    """Masked language modeling on the data of one recipe."""

    title, target = "A model that fills blanks", "masked piece"

    def __init__(self, recipe: "Recipe", prepared: Prepared, masking: Masking) -> None:
        self.masking = masking
        self._max_text = recipe.model.max_length - SPECIAL_TOKENS
        if self._max_text < 1:
            raise ConfigError(
                f"model.max_length: {recipe.model.max_length} tokens leave no room for text "
                f"between a start and an end; raise it."
            )
        super().__init__(recipe, prepared)

    def loss(self, model: nn.Module, batch: MaskedBatch) -> Tensor:
        masked_lm, positions = cast("MaskedLM", model), batch.masked_positions
        states = masked_lm.states(batch.ids, batch.token_mask, positions)
        labels = batch.labels[positions]
        all_labels = torch.ones_like(labels, dtype=torch.bool)
        smoothing = self.recipe.training.label_smoothing
        return lm_head_loss(masked_lm, states, labels, all_labels, smoothing)

    def predictor(self, model: nn.Module) -> MaskFiller:
        length = self.recipe.model.max_length
        return MaskFiller(cast("MaskedLM", model), self.prepared.tokenizer, length)

    def _batches(
        self, store: Store, budget: int, seed: int
    ) -> Batches[EpochSelection[Rows], MaskedBatch]:
        tokenizer = self.prepared.tokenizer
        passages = Passages(store, tokenizer.end, self._max_text)
        return masked_batches(passages, tokenizer, self.masking, budget, seed)

    def _predictions(self, model: nn.Module, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
        masked_lm, positions = cast("MaskedLM", model), batch.masked_positions
        states = masked_lm.states(batch.ids, batch.token_mask, positions)
        return masked_lm.output(states), batch.labels[positions]


class Spec(TaskSpec):
    """task: {kind: masked-lm, whole_words: true}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "share": "mask_rate",
        "masked": "mask_token_rate",
        "random": "random_token_rate",
    }

    record_type: ClassVar[RecordType] = "text"
    requires: ClassVar[Capability] = "masked-lm"
    default_model: ClassVar[str] = "masked-lm"
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

    def bind(self, recipe: "Recipe", prepared: Prepared) -> MaskedModeling:
        masking = Masking(
            prepared.tokenizer,
            self.mask_rate,
            self.mask_token_rate,
            self.random_token_rate,
            self.whole_words,
        )
        return MaskedModeling(recipe, prepared, masking)
