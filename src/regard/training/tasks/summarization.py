"""Summarization: long texts in, short ones out; perplexity of the summaries' words, and ROUGE.

The first side of a pair is read and the second written. `source: 500` reads the first 500 tokens of
each text, in training and ever after; without it, a text that is too long for the model is dropped,
and the ledger says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.pairs import PairBatch, pair_batches
from regard.data.config import Direction
from regard.data.records import LengthLimits
from regard.data.sampling.sampler import DataCursor, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError
from regard.evaluation.base import Metric, evaluation_metrics, metric_named, metrics_of
from regard.evaluation.texts import SummaryMetric, TextMetric, TextScores, score_texts
from regard.evaluation.tokens import LossMetric, loss_scores
from regard.models.base import Capability, ModelSpec
from regard.predictors.seq2seq import Model
from regard.predictors.summarizer import Summarizer
from regard.training.distributed.world import World
from regard.training.loss import mean_loss, seq2seq_loss
from regard.training.reporting.progress import Reporter, silent
from regard.training.tasks.base import TaskResult, TaskSpec

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

AROUND = 4  # tokens that come to those of a text and its summary, where both are one sequence
MANY = 2**16  # rows whose lengths are looked at together


class Summarization:
    def __init__(self, recipe: "Recipe", prepared: Prepared, source: int | None) -> None:
        self.recipe, self.prepared, self.source = recipe, prepared, source
        self.metric = recipe.task.metric(recipe)
        self._way = _one_way(recipe)
        self._says = _longest_summary(prepared.train)
        spec = recipe.training
        self._training = self._batches(prepared.train, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        return self.recipe.model.for_capability(self.recipe.task.requires)

    def batches(self, position: DataCursor) -> Iterator[tuple[PairBatch, DataCursor]]:
        return self._training.iter_from(position)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        return seq2seq_loss(cast("Model", model), batch, self.recipe.training.label_smoothing)

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Loss without smoothing on all dev pairs; a text metric, if it is selected, on the first,
        decoded greedily."""
        scores = loss_scores(self._loss_on(model, self.prepared.dev))
        if metrics := evaluation_metrics(SummaryMetric, self.metric):
            limit = self.recipe.training.evaluation.limit
            scores |= self._judge(model, metrics, self.prepared.dev, limit, silent).values
        return scores

    def predictor(self, model: nn.Module) -> Summarizer:
        length = self.recipe.model.max_length
        tokenizer = self.prepared.tokenizer
        return Summarizer(cast("Model", model), tokenizer, length, self._says, self.source)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        part, store = self.prepared.final_split
        with report.busy(f"Scoring on {part} …"):
            losses = loss_scores(self._loss_on(model, store))
        judged = self._judge(model, metrics_of(SummaryMetric), store, len(store), report)
        return TaskResult(
            predictor=self.predictor(model),
            title="A summarizer",
            card=_card(losses, judged, part, self.source),
            details={
                "max_length": self.recipe.model.max_length,
                "max_summary_tokens": self._says,
                "truncate_source": self.source,
                "scores": {**losses, **judged.to_plain("texts")},
                "scored_on": part,
            },
        )

    def _loss_on(self, model: nn.Module, store: Store) -> float:
        budget = max(self.recipe.training.batch_tokens, store.longest + AROUND)
        device = next(model.parameters()).device
        return mean_loss(cast("Model", model), self._batches(store, budget, seed=0).epoch(), device)

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, PairBatch]:
        return pair_batches(store, self.prepared.tokenizer, [self._way], budget, seed)

    def _judge(
        self,
        model: nn.Module,
        metrics: Sequence[TextMetric],
        store: Store,
        limit: int,
        report: Reporter,
    ) -> TextScores:
        """Of the first texts of a part, greedily summarized, against all their references."""
        texts = list(islice(store.texts(0), limit))
        with report.bar("Summarizing", len(texts), "texts") as advance:
            outputs = self.predictor(model).summarize(texts, advance)
        return score_texts(metrics, outputs, list(islice(store.references(), limit)))


def _one_way(recipe: "Recipe") -> Direction:
    """From the first side to the second, which must be the same in all sources."""
    sides = {source.language_pair for sources in recipe.data.splits.values() for source in sources}
    if recipe.data.directions is not None or len(sides) > 1:
        raise ConfigError(
            "data: summarization goes from the first side of every source to the second: give all "
            "sources the same languages, as in [text, summary], and leave directions out."
        )
    return Direction(*sides.pop())


def _longest_summary(store: Store) -> int:
    """In tokens."""
    starts = range(0, len(store), MANY)
    rows = (np.arange(start, min(start + MANY, len(store))) for start in starts)
    return max(int(store.lengths(some)[:, 1].max()) for some in rows)


def _card(losses: Mapping[str, float], judged: TextScores, part: str, source: int | None) -> str:
    values = {**losses, **judged.values}
    metrics = [metric_named(name) for name in values]
    labels = " | ".join(metric.label for metric in metrics)
    row = " | ".join(metric.show(values[metric.name]) for metric in metrics)
    signatures = ", ".join(dict.fromkeys(judged.signatures.values()))
    read = (
        "It reads whole texts."
        if source is None
        else f"It reads the first {source:,} tokens of a text, no more."
    )
    return f"""| {part} texts | {labels} |
|---|{"---|" * len(metrics)}
| {judged.count:,} | {row} |

{read} Loss and perplexity are of a token of the (first) reference; ROUGE of summaries decoded
greedily ({signatures}).

    regard summarize THIS-FOLDER texts.txt

```python
import regard

regard.load("THIS-FOLDER").summarize(["…"])
```
"""


class Spec(TaskSpec):
    """task: {kind: summarization, source: 500}"""

    record_type: ClassVar[RecordType] = "pair"
    requires: ClassVar[Capability] = "seq2seq"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (SummaryMetric, LossMetric)
    default_metric: ClassVar[str] = "loss"

    source: int | None = Field(
        None, gt=0, description="read the first so many tokens of each text; all, unless given"
    )

    def length_limits(self, model: ModelSpec) -> LengthLimits:
        return LengthLimits(max_first_text=self.source, single_sequence=model.single_sequence)

    def check(self, model: ModelSpec, record_type: RecordType, metric: str | None) -> None:
        super().check(model, record_type, metric)
        around = AROUND if model.single_sequence else 2
        if self.source is not None and self.source + around > model.max_length:
            also = " with its summary" if model.single_sequence else ""
            raise ValueError(
                f"task.source: {self.source:,} tokens of a text and {around} around them{also} are "
                f"more than model.max_length, {model.max_length:,}; raise that, or lower this"
            )

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Summarization:
        return Summarization(recipe, prepared, self.source)
