"""Summarization: pairs of a long and a short text; perplexity of the summaries, and ROUGE.

The first text of a pair is the source, the second its summary. `source: 500` reads the first 500
tokens of each text, in training and in inference; without it, a text that is too long for the model
is dropped, and the ledger counts it.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
from pydantic import Field
from torch import nn

from regard.data.batches.base import Batches
from regard.data.batches.pairs import PairBatch, pair_batches
from regard.data.direction import Direction
from regard.data.records import LengthLimits
from regard.data.sampling.sampler import Rows
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
from regard.training.reporting.progress import Reporter, silent
from regard.training.tasks.base import TaskResult, TaskSpec
from regard.training.tasks.bound import Seq2SeqTask, summary

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

SPECIAL_TOKENS = 4  # of a text and its summary in one sequence
ROWS = 2**16  # whose lengths are read at once


class Summarization(Seq2SeqTask):
    """Summarization on the data of one recipe."""

    def __init__(self, recipe: "Recipe", prepared: Prepared, source: int | None) -> None:
        self.source = source
        self._direction = _direction(recipe)
        self._max_summary = _longest_summary(prepared.train)
        super().__init__(recipe, prepared)

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Return the loss without smoothing on all dev pairs, and a selected text metric.

        The text metric is of the first pairs, decoded greedily.
        """
        scores = loss_scores(self._split_loss(model, self.prepared.dev))
        if metrics := evaluation_metrics(SummaryMetric, self.metric):
            limit = self.recipe.training.evaluation.limit
            scores |= self._text_scores(model, metrics, self.prepared.dev, limit, silent).values
        return scores

    def predictor(self, model: nn.Module) -> Summarizer:
        length = self.recipe.model.max_length
        tokenizer = self.prepared.tokenizer
        return Summarizer(cast("Model", model), tokenizer, length, self._max_summary, self.source)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        split, store = self.prepared.final_split
        with report.busy(f"Computing the loss on {split} …"):
            losses = loss_scores(self._split_loss(model, store))
        text_scores = self._text_scores(model, metrics_of(SummaryMetric), store, len(store), report)
        return TaskResult(
            predictor=self.predictor(model),
            title="A summarizer",
            card=_card(losses, text_scores, split, self.source),
            details={
                "max_length": self.recipe.model.max_length,
                "max_summary_tokens": self._max_summary,
                "truncate_source": self.source,
                "scores": {**losses, **text_scores.to_plain("texts")},
                "scored_on": split,
            },
            summary=summary({**losses, **text_scores.values}, split),
        )

    def _split_loss(self, model: nn.Module, store: Store) -> float:
        device = next(model.parameters()).device
        return self._mean_loss(model, store, store.longest + SPECIAL_TOKENS, device)

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, PairBatch]:
        return pair_batches(store, self.prepared.tokenizer, [self._direction], budget, seed)

    def _text_scores(
        self,
        model: nn.Module,
        metrics: Sequence[TextMetric],
        store: Store,
        limit: int,
        report: Reporter,
    ) -> TextScores:
        """Score greedy summaries of the first texts of a split against all their references."""
        texts = list(islice(store.texts(0), limit))
        with report.bar("Summarizing", len(texts), "texts") as advance:
            outputs = self.predictor(model).summarize(texts, advance)
        return score_texts(metrics, outputs, list(islice(store.references(), limit)))


def _direction(recipe: "Recipe") -> Direction:
    """Return the direction from text to summary, which must be the same in all sources."""
    pairs = {source.language_pair for sources in recipe.data.splits.values() for source in sources}
    if recipe.data.directions is not None or len(pairs) > 1:
        raise ConfigError(
            "data: summarization is from the first text of a pair to the second: give all sources "
            "the same languages, as in [text, summary], and leave out directions."
        )
    return Direction(*pairs.pop())


def _longest_summary(store: Store) -> int:
    """Return the number of tokens of the longest summary."""
    starts = range(0, len(store), ROWS)
    chunks = (np.arange(start, min(start + ROWS, len(store))) for start in starts)
    return max(int(store.lengths(rows)[:, 1].max()) for rows in chunks)


def _card(
    losses: Mapping[str, float], text_scores: TextScores, split: str, source: int | None
) -> str:
    values = {**losses, **text_scores.values}
    metrics = [metric_named(name) for name in values]
    labels = " | ".join(metric.label for metric in metrics)
    row = " | ".join(metric.show(values[metric.name]) for metric in metrics)
    signatures = ", ".join(dict.fromkeys(text_scores.signatures.values()))
    read = (
        "It reads whole texts."
        if source is None
        else f"It reads the first {source:,} tokens of a text, no more."
    )
    return f"""| {split} texts | {labels} |
|---|{"---|" * len(metrics)}
| {text_scores.count:,} | {row} |

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
    default_model: ClassVar[str] = "encoder-decoder"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (SummaryMetric, LossMetric)
    default_metric: ClassVar[str] = "loss"

    source: int | None = Field(
        None, gt=0, description="read the first so many tokens of each text; all, unless given"
    )

    def length_limits(self, model: ModelSpec) -> LengthLimits:
        return LengthLimits(max_first_text=self.source, single_sequence=model.single_sequence)

    def check(self, model: ModelSpec, record_type: RecordType, metric: str | None) -> None:
        super().check(model, record_type, metric)
        around = SPECIAL_TOKENS if model.single_sequence else 2
        if self.source is not None and self.source + around > model.max_length:
            also = " with its summary" if model.single_sequence else ""
            raise ValueError(
                f"task.source: {self.source:,} tokens of a text and {around} around them{also} are "
                f"more than model.max_length, {model.max_length:,}; raise that, or lower this"
            )

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Summarization:
        return Summarization(recipe, prepared, self.source)
