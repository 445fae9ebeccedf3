"""Translation: pairs of sentences, cross-entropy of the target; BLEU, chrF and other metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, cast

from pydantic import Field
from torch import nn

from regard.data.batches.base import Batches
from regard.data.batches.pairs import PairBatch, pair_batches
from regard.data.sampling.sampler import Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.decoding.ranges import MAX_BEAM
from regard.evaluation.base import Metric, evaluation_metrics, metric_named, metrics_of
from regard.evaluation.texts import TextMetric, TextScores, TranslationMetric, score_texts
from regard.evaluation.tokens import LossMetric, loss_scores
from regard.models.base import Capability
from regard.predictors.seq2seq import Model
from regard.predictors.source_text import SourceHandling
from regard.predictors.translator import Translator
from regard.training.distributed.world import World
from regard.training.reporting.progress import Reporter, silent
from regard.training.tasks.base import TaskResult, TaskSpec
from regard.training.tasks.bound import Seq2SeqTask

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


SPECIAL_TOKENS = 8  # at most, of a pair: start, end and language tokens


class Translation(Seq2SeqTask):
    """Translation on the data of one recipe."""

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Return the loss on all dev pairs, and text metrics of the first, decoded greedily."""
        dev = self.prepared.dev
        scores = loss_scores(
            self._mean_loss(model, dev, dev.longest + SPECIAL_TOKENS, world.device)
        )
        if metrics := evaluation_metrics(TranslationMetric, self.metric):
            limit = self.recipe.training.evaluation.limit
            translator = self.predictor(model)
            by_direction = self._text_scores(translator, metrics, dev, limit, silent).values()
            for metric in metrics:
                values = [direction_scores[metric.name] for direction_scores in by_direction]
                scores[metric.name] = sum(values) / len(values)
        return scores

    def predictor(self, model: nn.Module) -> Translator:
        return Translator(
            cast("Model", model),
            self.prepared.tokenizer,
            self.prepared.language_id,
            self.recipe.model.max_length,
            self.recipe.data.translation_directions,
            handling=self._handling,
            beam=self._spec.beam,
        )

    @property
    def _handling(self) -> SourceHandling:
        task = self._spec
        return SourceHandling(task.split_sentences, task.lowercase_capitals, task.restore_lost)

    @property
    def _spec(self) -> "Spec":
        return cast("Spec", self.recipe.task)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        translator = self.predictor(model)
        split, store = self.prepared.final_split
        metrics = metrics_of(TranslationMetric)
        scores = self._text_scores(translator, metrics, store, len(store), report)
        details = {
            "directions": [
                f"{direction.source} → {direction.target}"
                for direction in self.recipe.data.translation_directions
            ],
            "max_length": self.recipe.model.max_length,
            **asdict(self._handling),
            "beam": self._spec.beam,
            "scores": {direction: score.to_plain("pairs") for direction, score in scores.items()},
            "scored_on": split,
        }
        return TaskResult(
            predictor=translator,
            title=f"A translator, {', '.join(scores)}",
            card=_card(scores, split),
            details=details,
            extra_files={"languages.json": translator.language_identifier.to_json()},
        )

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, PairBatch]:
        return pair_batches(
            store, self.prepared.tokenizer, self.recipe.data.translation_directions, budget, seed
        )

    def _text_scores(
        self,
        translator: Translator,
        metrics: Sequence[TextMetric],
        store: Store,
        limit: int,
        report: Reporter,
    ) -> dict[str, TextScores]:
        """Score greedy translations of each direction that a split has: {"fr → en": …}."""
        scores = {}
        for source, target in self.recipe.data.translation_directions:
            pairs = list(islice(_pairs(store, source, target), limit))
            if not pairs:
                continue
            with report.bar(f"Scoring {source} → {target}", len(pairs), "pairs") as advance:
                outputs = translator.translate([text for text, _ in pairs], target, advance, beam=1)
            references = [[reference] for _, reference in pairs]
            scores[f"{source} → {target}"] = score_texts(metrics, outputs, references)
        return scores


def _pairs(store: Store, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yield the raw pairs of a split in these two languages, in this order."""
    texts = list(zip(store.texts(0), store.texts(1), strict=True))
    for section in store.sections:
        rows = texts[section.first : section.first + section.count]
        if section.languages == (source, target) and 0 in section.source_sides:
            yield from rows
        elif section.languages == (target, source) and 1 in section.source_sides:
            yield from ((second, first) for first, second in rows)


def _card(scores: Mapping[str, TextScores], split: str) -> str:
    first = next(iter(scores.values()))
    metrics = [metric_named(name) for name in first.values]
    rows = "\n".join(
        f"| {direction} | {' | '.join(metric.show(values[metric.name]) for metric in metrics)} "
        f"| {values.count:,} |"
        for direction, values in scores.items()
    )
    labels = " | ".join(metric.label for metric in metrics)
    signatures = "; ".join(
        f"{metric_named(name).label} {signature}" for name, signature in first.signatures.items()
    )
    target = next(iter(scores)).rpartition(" ")[2]
    return f"""| direction | {labels} | {split} pairs |
|---|{"---|" * len(metrics)}---|
{rows}

On detokenized text, greedy decoding ({signatures}).

    echo "…" | regard translate THIS-FOLDER --to {target}

```python
import regard

regard.load("THIS-FOLDER").translate(["…"], to="{target}")
```
"""


class Spec(TaskSpec):
    """task: {kind: translation, split_sentences: true}"""

    record_type: ClassVar[RecordType] = "pair"
    requires: ClassVar[Capability] = "seq2seq"
    default_model: ClassVar[str] = "encoder-decoder"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (TranslationMetric, LossMetric)
    default_metric: ClassVar[str] = "bleu"

    split_sentences: bool = Field(False, description="translate each sentence of a line by itself")
    lowercase_capitals: bool = Field(
        False, description="translate text in capitals in lower case; capitalize its translation"
    )
    restore_lost: bool = Field(
        False,
        description="repair or decode again a translation that lost a number, a link, a rare name "
        "or a character that training has never seen",
    )
    beam: int = Field(
        1, ge=1, le=MAX_BEAM, description="beam width of the trained model, unless one is given"
    )

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Translation:
        return Translation(recipe, prepared)
