"""Span corruption: text with spans cut out is read, and what was cut out is to be written."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.corrupted import span_batches
from regard.data.batches.pairs import PairBatch
from regard.data.batches.spans import SpanCorruptor, sentinel
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import DataCursor, EpochSelection, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError
from regard.evaluation.base import Metric
from regard.evaluation.tokens import TokenMetric
from regard.models.base import Capability, ModelSpec
from regard.models.encoder_decoder import EncoderDecoder
from regard.predictors.span_filler import SpanFiller
from regard.training.distributed.world import World
from regard.training.loss import TokenMetrics, seq2seq_loss
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import TaskResult, TaskSpec

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

AROUND = 4  # tokens that come to those of a text, all of it cut out: start, two marks, end


class SpanCorruption:
    def __init__(
        self, recipe: "Recipe", prepared: Prepared, spans: SpanCorruptor, sentinels: int
    ) -> None:
        self.recipe, self.prepared, self.spans, self.sentinels = recipe, prepared, spans, sentinels
        self.metric = recipe.task.metric(recipe)
        length = recipe.model.max_length
        self._room = length - AROUND
        if self._room < 1:
            raise ConfigError(
                f"model.max_length: {length} tokens are no room for a text; raise it."
            )
        if (most := spans.max_spans(self._room) + 1) > sentinels:
            raise ConfigError(
                f"task.sentinels: texts of {length:,} tokens need {most}, one for each span and "
                f"one after the last, and there are {sentinels}; raise it, or task.mean_span."
            )
        spec = recipe.training
        self._training = self._batches(prepared.train, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        return self.recipe.model.for_capability(self.recipe.task.requires)

    def batches(self, position: DataCursor) -> Iterator[tuple[PairBatch, DataCursor]]:
        return self._training.iter_from(position)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        return seq2seq_loss(
            cast("EncoderDecoder", model), batch, self.recipe.training.label_smoothing
        )

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        return self._judge(model, self._dev, world.device)

    def predictor(self, model: nn.Module) -> SpanFiller:
        length = self.recipe.model.max_length
        tokenizer, sentinels = self.prepared.tokenizer, self.sentinels
        return SpanFiller(cast("EncoderDecoder", model), tokenizer, length, sentinels)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        part, store = self.prepared.final_split
        with report.busy(f"Scoring on {part} …"):
            scores = self._judge(model, self._in_order(store), next(model.parameters()).device)
        return TaskResult(
            predictor=self.predictor(model),
            title="A model that fills blanks of several words",
            card=f"| {part} loss per piece | perplexity | right |\n|---|---|---|\n"
            f"| {scores['loss']:.4f} | {scores['perplexity']:.2f} | {scores['accuracy']:.1%} |\n\n"
            f'    regard fill THIS-FOLDER "The [MASK] crossed the street"\n',
            details={
                "max_length": self.recipe.model.max_length,
                "sentinels": self.sentinels,
                "scores": scores,
                "scored_on": part,
            },
        )

    def _batches(
        self, store: Store, budget: int, seed: int
    ) -> Batches[EpochSelection[Rows], PairBatch]:
        tokenizer, length = self.prepared.tokenizer, self.recipe.model.max_length
        passages = Passages(store, tokenizer.end, self._room)
        return span_batches(passages, tokenizer, self.spans, length, budget, seed)

    @cached_property
    def _dev(self) -> Batches[EpochSelection[Rows], PairBatch]:
        return self._in_order(self.prepared.dev)

    def _in_order(self, store: Store) -> Batches[EpochSelection[Rows], PairBatch]:
        """To score on: the same spans at every look, whatever the seed of training."""
        budget = max(self.recipe.training.batch_tokens, self.recipe.model.max_length)
        return self._batches(store, budget, seed=0)

    @torch.no_grad()
    def _judge(
        self, model: nn.Module, data: Batches[EpochSelection[Rows], PairBatch], device: torch.device
    ) -> dict[str, float]:
        writing, guesses = cast("EncoderDecoder", model), TokenMetrics()
        for batch in data.epoch():
            here = batch.to(device)
            states = writing.states(here.source, here.source_mask, here.target[:, :-1])
            token_mask = here.target_mask[:, 1:]
            guesses.add(writing.output(states[token_mask]), here.target[:, 1:][token_mask])
        return guesses.scores()


class Spec(TaskSpec):
    """task: {kind: span-corruption, mean_span_length: 3}"""

    renamed_keys: ClassVar[Mapping[str, str]] = {
        "share": "corruption_rate",
        "mean_span": "mean_span_length",
    }

    record_type: ClassVar[RecordType] = "text"
    requires: ClassVar[Capability] = "seq2seq"
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
