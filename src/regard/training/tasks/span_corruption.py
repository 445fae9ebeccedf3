"""Span corruption (Raffel et al. 2020): predict the spans that were cut out of a text."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import Field
from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.corrupted import span_batches
from regard.data.batches.pairs import PairBatch
from regard.data.batches.spans import SpanCorruptor, sentinel
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import EpochSelection, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError
from regard.evaluation.base import Metric
from regard.evaluation.tokens import TokenMetric
from regard.models.base import Capability, ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.span_filler import SpanFiller
from regard.training.loss import seq2seq_loss
from regard.training.tasks.base import TaskSpec
from regard.training.tasks.bound import CorruptionTask

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

SPECIAL_TOKENS = 4  # start, two sentinels and end, if all of a text is cut out


class SpanCorruption(CorruptionTask[PairBatch]):
    """Span corruption on the data of one recipe."""

    title, target = "A model that fills blanks of several words", "piece"

    def __init__(
        self, recipe: "Recipe", prepared: Prepared, spans: SpanCorruptor, sentinels: int
    ) -> None:
        self.spans, self.sentinels = spans, sentinels
        length = recipe.model.max_length
        self._max_text = length - SPECIAL_TOKENS
        if self._max_text < 1:
            raise ConfigError(
                f"model.max_length: {length} tokens leave no room for a text; raise it."
            )
        if (needed := spans.max_spans(self._max_text) + 1) > sentinels:
            raise ConfigError(
                f"task.sentinels: texts of {length:,} tokens need {needed}, one for each span and "
                f"one after the last, and there are {sentinels}; raise it, or "
                f"task.mean_span_length."
            )
        super().__init__(recipe, prepared)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        smoothing = self.recipe.training.label_smoothing
        return seq2seq_loss(cast("EncoderDecoder", model), batch, smoothing)

    def predictor(self, model: nn.Module) -> SpanFiller:
        length = self.recipe.model.max_length
        tokenizer, sentinels = self.prepared.tokenizer, self.sentinels
        return SpanFiller(cast("EncoderDecoder", model), tokenizer, length, sentinels)

    def _batches(
        self, store: Store, budget: int, seed: int
    ) -> Batches[EpochSelection[Rows], PairBatch]:
        tokenizer, length = self.prepared.tokenizer, self.recipe.model.max_length
        passages = Passages(store, tokenizer.end, self._max_text)
        return span_batches(passages, tokenizer, self.spans, length, budget, seed)

    def _predictions(self, model: nn.Module, batch: PairBatch) -> tuple[Tensor, Tensor]:
        seq2seq = cast("EncoderDecoder", model)
        states = seq2seq.states(batch.source, batch.source_mask, batch.target[:, :-1])
        token_mask = batch.target_mask[:, 1:]
        return seq2seq.output(states[token_mask]), batch.target[:, 1:][token_mask]

    def _details(self) -> Mapping[str, Any]:
        return {"sentinels": self.sentinels}


class Spec(TaskSpec):
    """task: {kind: span-corruption, mean_span_length: 3}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "share": "corruption_rate",
        "mean_span": "mean_span_length",
    }

    record_type: ClassVar[RecordType] = "text"
    requires: ClassVar[Capability] = "seq2seq"
    default_model: ClassVar[str] = "encoder-decoder"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (TokenMetric,)
    default_metric: ClassVar[str] = "loss"

    corruption_rate: float = Field(
        0.15, gt=0, le=0.5, description="fraction of the tokens of a text to cut out"
    )
    mean_span_length: float = Field(
        3.0, ge=1, description="mean length of a span in tokens (with whole_words: in words)"
    )
    whole_words: bool = Field(False, description="cut spans at word boundaries only")
    sentinels: int = Field(
        100, ge=2, le=1000, description="number of sentinel tokens <extra_0> …, one for each span"
    )

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return tuple(sentinel(number) for number in range(self.sentinels))

    def check(self, model: ModelSpec, record_type: RecordType, metric: str | None) -> None:
        super().check(model, record_type, metric)
        if model.single_sequence:
            raise ValueError(
                f"model: a {model.kind()} has source and target in one sequence, span-corruption "
                f"cuts texts to the length of each: use an encoder-decoder"
            )

    def bind(self, recipe: "Recipe", prepared: Prepared) -> SpanCorruption:
        spans = SpanCorruptor(
            prepared.tokenizer,
            self.corruption_rate,
            self.mean_span_length,
            self.sentinels,
            self.whole_words,
        )
        return SpanCorruption(recipe, prepared, spans, self.sentinels)
