"""Translation: pairs in, cross-entropy over the target words, BLEU and chrF on what it says."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, cast

from torch import Tensor, nn

from regard.data.batches.base import Batches
from regard.data.batches.pairs import PairBatch, pair_batches
from regard.data.sampling.sampler import DataCursor, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.evaluation.bleu import TranslationScore, score_translations
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
        return self._training.since(position)

    def loss(self, model: nn.Module, batch: PairBatch) -> Tensor:
        return seq2seq_loss(cast("Model", model), batch, self.recipe.training.label_smoothing)

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        """Loss without smoothing on all dev pairs; BLEU and chrF on what is said of the first."""
        dev = self.prepared.dev
        budget = max(self.recipe.training.batch_tokens, dev.longest + 8)
        batches = self._batches(dev, budget, seed=0).epoch()
        scores = {"loss": mean_loss(cast("Model", model), batches, world.device)}
        if self.metric != "loss":
            limit = self.recipe.training.evaluation.limit
            judged = self._judge(self.predictor(model), dev, limit, silent, beam=1)
            scores["bleu"] = sum(each.bleu for each in judged.values()) / len(judged)
            scores["chrf"] = sum(each.chrf for each in judged.values()) / len(judged)
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
        scores = self._judge(translator, store, len(store), report, beam=1)
        details = {
            "directions": [
                f"{way.source} → {way.target}" for way in self.recipe.data.translation_directions
            ],
            "max_length": self.recipe.model.max_length,
            "scores": {direction: asdict(score) for direction, score in scores.items()},
            "scored_on": part,
        }
        return TaskResult(
            predictor=translator,
            title=f"A translator, {', '.join(scores)}",
            card=_card(scores, part),
            details=details,
            extra_files={"languages.json": translator.guess.to_json()},
        )

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, PairBatch]:
        return pair_batches(
            store, self.prepared.tokenizer, self.recipe.data.translation_directions, budget, seed
        )

    def _judge(
        self, translator: Translator, store: Store, limit: int, report: Reporter, beam: int
    ) -> dict[str, TranslationScore]:
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
            references = [target for _, target in pairs]
            scores[f"{way.source} → {way.target}"] = score_translations(outputs, references)
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


def _card(scores: Mapping[str, TranslationScore], part: str) -> str:
    rows = "\n".join(
        f"| {direction} | {each.bleu:.1f} | {each.chrf:.1f} | {each.exact:.1%} | {each.pairs:,} |"
        for direction, each in scores.items()
    )
    signature = next(iter(scores.values())).signature
    target = next(iter(scores)).rpartition(" ")[2]
    return f"""| direction | BLEU | chrF | exact | {part} pairs |
|---|---|---|---|---|
{rows}

BLEU and chrF by sacrebleu on detokenised text, greedy decoding ({signature}).

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
    metrics: ClassVar[tuple[str, ...]] = ("bleu", "chrf", "loss")

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Translation:
        return Translation(recipe, prepared)
