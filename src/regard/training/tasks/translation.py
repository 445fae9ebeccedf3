"""Translation: pairs in, cross-entropy over the target words, BLEU and chrF on what it says."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, cast

from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.pairs import PairBatch, pair_batches
from regard.data.sampling.sampler import DataCursor, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.evaluation.base import Metric, evaluation_metrics, metric_named, metrics_of
from regard.evaluation.texts import TextMetric, TextScores, TranslationMetric, score_texts
from regard.evaluation.tokens import LossMetric, loss_scores
from regard.models.base import Capability, ModelSpec
from regard.predictors.seq2seq import Model
from regard.predictors.translator import Translator
from regard.training.distributed.world import World
from regard.training.loss import mean_loss, seq2seq_loss
from regard.training.reporting.progress import Reporter, silent
from regard.training.tasks.base import TaskResult, TaskSpec

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class Translation:
    def __init__(self, recipe: "Recipe", prepared: Prepared) -> None:
        self.recipe, self.prepared = recipe, prepared
        self.metric = recipe.task.metric(recipe)
        spec = recipe.training
        self._training = self._batches(prepared.train, spec.batch_tokens, spec.seed)

    def model(self) -> ModelSpec:
        return self.recipe.model.for_capability(self.recipe.task.requires)

    def batches(self, position: DataCursor) -> Iterator[tuple[PairBatch, DataCursor]]:
        return self._training.iter_from(position)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        return seq2seq_loss(cast("Model", model), batch, self.recipe.training.label_smoothing)

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Loss without smoothing on all dev pairs; text metrics on the first, decoded greedily."""
        dev = self.prepared.dev
        budget = max(self.recipe.training.batch_tokens, dev.longest + 8)
        batches = self._batches(dev, budget, seed=0).epoch()
        scores = loss_scores(mean_loss(cast("Model", model), batches, world.device))
        if metrics := evaluation_metrics(TranslationMetric, self.metric):
            limit = self.recipe.training.evaluation.limit
            translator = self.predictor(model)
            judged = self._judge(translator, metrics, dev, limit, silent, beam=1).values()
            for metric in metrics:
                scores[metric.name] = sum(each[metric.name] for each in judged) / len(judged)
        return scores

    def predictor(self, model: nn.Module) -> Translator:
        return Translator(
            cast("Model", model),
            self.prepared.tokenizer,
            self.prepared.language_id,
            self.recipe.model.max_length,
            self.recipe.data.translation_directions,
        )

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        translator = self.predictor(model)
        part, store = self.prepared.final_split
        metrics = metrics_of(TranslationMetric)
        scores = self._judge(translator, metrics, store, len(store), report, beam=1)
        details = {
            "directions": [
                f"{way.source} → {way.target}" for way in self.recipe.data.translation_directions
            ],
            "max_length": self.recipe.model.max_length,
            "scores": {direction: score.to_plain("pairs") for direction, score in scores.items()},
            "scored_on": part,
        }
        return TaskResult(
            predictor=translator,
            title=f"A translator, {', '.join(scores)}",
            card=_card(scores, part),
            details=details,
            extra_files={"languages.json": translator.language_identifier.to_json()},
        )

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, PairBatch]:
        return pair_batches(
            store, self.prepared.tokenizer, self.recipe.data.translation_directions, budget, seed
        )

    def _judge(
        self,
        translator: Translator,
        metrics: Sequence[TextMetric],
        store: Store,
        limit: int,
        report: Reporter,
        beam: int,
    ) -> dict[str, TextScores]:
        """Scores of each direction on the pairs that offer it: {"fr → en": …}."""
        scores = {}
        for way in self.recipe.data.translation_directions:
            pairs = list(islice(_pairs(store, way.source, way.target), limit))
            if not pairs:
                continue
            title = f"Scoring {way.source} → {way.target}"
            with report.bar(title, len(pairs), "pairs") as advance:
                outputs = translator.translate(
                    [source for source, _ in pairs], way.target, advance, beam=beam
                )
            references = [[target] for _, target in pairs]
            scores[f"{way.source} → {way.target}"] = score_texts(metrics, outputs, references)
        return scores


def _pairs(store: Store, source: str, target: str) -> Iterator[tuple[str, str]]:
    """The raw pairs of a part in these two languages, in this order."""
    texts = list(zip(store.texts(0), store.texts(1), strict=True))
    for section in store.sections:
        rows = texts[section.first : section.first + section.count]
        if section.languages == (source, target):
            yield from rows
        elif section.languages == (target, source):
            yield from ((second, first) for first, second in rows)


def _card(scores: Mapping[str, TextScores], part: str) -> str:
    first = next(iter(scores.values()))
    metrics = [metric_named(name) for name in first.values]
    rows = "\n".join(
        f"| {direction} | {' | '.join(metric.show(each[metric.name]) for metric in metrics)} "
        f"| {each.count:,} |"
        for direction, each in scores.items()
    )
    labels = " | ".join(metric.label for metric in metrics)
    signatures = "; ".join(
        f"{metric_named(name).label} {signature}" for name, signature in first.signatures.items()
    )
    target = next(iter(scores)).rpartition(" ")[2]
    return f"""| direction | {labels} | {part} pairs |
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
    """task: translation"""

    record_type: ClassVar[RecordType] = "pair"
    requires: ClassVar[Capability] = "seq2seq"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (TranslationMetric, LossMetric)
    default_metric: ClassVar[str] = "bleu"

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Translation:
        return Translation(recipe, prepared)
