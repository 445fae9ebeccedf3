"""Classification: labelled texts in, cross-entropy over their labels; accuracy, F1, calibration.

Where a text may have several labels each of them is a decision of its own, yes or no.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import plain
from regard.data.batches.base import Batches
from regard.data.batches.labeled import LabeledBatch, ParsedBatch, labeled_batches, parsed_batches
from regard.data.sampling.sampler import DataCursor, Rows
from regard.data.sources.base import RecordType
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.errors import ConfigError, DataError
from regard.evaluation.base import Metric, evaluation_metrics, metrics_of
from regard.evaluation.calibration import fit_temperature
from regard.evaluation.classification import ClassificationReport, LabelMetric, PredictionCounter
from regard.evaluation.figures import figures
from regard.models.base import Capability, ModelSpec
from regard.predictors.classifier import Classifier
from regard.training.distributed.world import World
from regard.training.loss import classification_loss
from regard.training.reporting.progress import Reporter
from regard.training.tasks.base import TaskResult, TaskSpec

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

# Texts with their labels, and with their trees where the model reads them.
Told = LabeledBatch | ParsedBatch
AnyBatches = Batches[Rows, LabeledBatch] | Batches[Rows, ParsedBatch]

ENOUGH = 2**24  # logits to fit a temperature on: more would tell nothing new
SHOWN = 30  # labels in the table of a card


class Classification:
    def __init__(self, recipe: "Recipe", prepared: Prepared, spec: "Spec") -> None:
        self.recipe, self.prepared, self.spec = recipe, prepared, spec
        self.metric = spec.metric(recipe)
        self.labels, self.written = prepared.labels, recipe.data.labels
        if len(self.labels) < 2:
            raise DataError(
                f"data.train: there is only one label, {self.labels[0]!r}; "
                f"a classifier needs at least two."
            )
        if self.metric not in [metric.name for metric in self._metrics()]:
            raise ConfigError(
                f"training.evaluation.metric: {self.metric} is for texts with several labels, and "
                f"here each has one; choose accuracy."
            )
        training = recipe.training
        self._training = self._batches(prepared.train, training.batch_tokens, training.seed)
        self._weights = self._balance() if spec.balance else None

    def model(self) -> ModelSpec:
        """With as many classes as the training data have labels."""
        meant = self.recipe.model.for_capability(self.recipe.task.requires)
        return meant.model_copy(update={"classes": len(self.labels)})

    def batches(self, position: DataCursor) -> Iterator[tuple[Told, DataCursor]]:
        return self._training.iter_from(position)

    def loss(self, model: nn.Module, batch: Told) -> Tensor:
        smoothing = self.recipe.training.label_smoothing
        logits = model(*batch.inputs)
        weights = None if self._weights is None else self._weights.to(logits)
        return classification_loss(logits, batch.labels, smoothing, weights).sum()

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        (report,) = self._judge((self.predictor(model),), self.prepared.dev, world.device)
        return {metric.name: metric.of_report(report) for metric in self._metrics()}

    def _metrics(self) -> list[LabelMetric]:
        """The metrics to compute at an evaluation on the dev data."""
        several = self.written.several
        metrics = evaluation_metrics(LabelMetric, self.metric)
        return [metric for metric in metrics if several or not metric.multi_label_only]

    def predictor(self, model: nn.Module) -> Classifier:
        return self._labeller(model, temperature=1.0)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        part, store = self.prepared.final_split
        device = next(model.parameters()).device
        with report.busy(f"Scoring on {part} …"):
            temperature = self._temperature(model, device) if self.spec.calibrate else 1.0
            predictor = self._labeller(model, temperature)
            found, raw = self._judge((predictor, self.predictor(model)), store, device)
        report.say(_said(found, part))
        return TaskResult(
            predictor=predictor,
            title=f"A classifier: {', '.join(self.labels[:10])}{', …' * (len(self.labels) > 10)}",
            card=self._card(found, raw, temperature, part),
            details={
                "labels": list(self.labels),
                "max_length": self.recipe.model.max_length,
                "num_texts": predictor.num_texts,
                "label_format": plain(self.written),
                "temperature": temperature,
                **({} if predictor.tree_source is None else {"tree_source": predictor.tree_source}),
                "scores": found.scores,
                "scored_on": part,
            },
            documents={"confusion.tsv": _confusion_table(found), **figures(found)},
        )

    def _labeller(self, model: nn.Module, temperature: float) -> Classifier:
        return Classifier(
            model,
            self.prepared.tokenizer,
            self.labels,
            self.recipe.model.max_length,
            self.prepared.train.num_texts,
            self.written,
            temperature,
            self._trees,
        )

    @property
    def _trees(self) -> dict[str, Any] | None:
        """Where trees come from, for a model that reads them: as train has it, but for the path."""
        if not self.recipe.model.needs_trees:
            return None
        source = plain(self.recipe.data.train[0])
        return {key: value for key, value in source.items() if key not in ("path", "weight")}

    @property
    def _classes(self) -> int | None:
        """How many decisions a text is; None where it is one, between the labels."""
        return len(self.labels) if self.written.several else None

    def _batches(self, store: Store, budget: int, seed: int) -> AnyBatches:
        make = parsed_batches if self.recipe.model.needs_trees else labeled_batches
        return make(store, self.prepared.tokenizer, budget, seed, self._classes)

    def _balance(self) -> Tensor:
        """How much more what a rare label's texts cost, so that all labels cost as much in all."""
        numbers = np.concatenate(self.prepared.train.labels(np.arange(len(self.prepared.train))))
        counts = np.maximum(np.bincount(numbers, minlength=len(self.labels)), 1)
        texts = len(self.prepared.train)
        if self.written.several:
            return torch.from_numpy((texts - counts) / counts)  # against the texts without it
        return torch.from_numpy(texts / (len(counts) * counts))

    def _logits(
        self, model: nn.Module, store: Store, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """What the model says of every text, and what is right."""
        budget = max(self.recipe.training.batch_tokens, self.recipe.model.max_length)
        with torch.no_grad():
            for batch in self._batches(store, budget, seed=0).epoch():
                here = batch.to(device)
                yield model(*here.inputs), here.labels

    def _judge(
        self, labellers: Sequence[Classifier], store: Store, device: torch.device
    ) -> list[ClassificationReport]:
        """What each is worth; they have one model, and differ in how sure they are."""
        tallies = [PredictionCounter(self.labels, self.written.several) for _ in labellers]
        for logits, actual in self._logits(labellers[0].model, store, device):
            for tally, labeller in zip(tallies, labellers, strict=True):
                tally.add(labeller.calibrate(logits), actual)
        return [tally.report() for tally in tallies]

    def _temperature(self, model: nn.Module, device: torch.device) -> float:
        """Fitted on the dev data, or as many of them as are enough."""
        logits: list[Tensor] = []
        actual: list[Tensor] = []
        for said, right in self._logits(model, self.prepared.dev, device):
            logits.append(said.cpu())
            actual.append(right.cpu())
            if sum(map(Tensor.numel, logits)) > ENOUGH:
                break
        return fit_temperature(torch.cat(logits), torch.cat(actual))

    def _card(
        self, found: ClassificationReport, raw: ClassificationReport, temperature: float, part: str
    ) -> str:
        rows = sorted(found.labels, key=lambda each: -each.texts)
        lines = "\n".join(
            f"| {each.label.replace('|', '¦')} | {each.texts:,} | {each.precision:.1%} | "
            f"{each.recall:.1%} | {each.f1:.1%} |"
            for each in rows[:SHOWN]
        )
        more = f"\nThe {SHOWN} commonest of {len(rows):,} labels.\n" * (len(rows) > SHOWN)
        metrics = metrics_of(LabelMetric)
        shown = " | ".join(metric.show(metric.of_report(found)) for metric in metrics)
        headings = " | ".join(metric.label for metric in metrics)
        exact = " Accuracy counts texts with all labels right." * found.multi_label
        return f"""| {part} texts | {headings} |
|---|{"---|" * len(metrics)}
| {found.texts:,} | {shown} |

The 95 % interval of the accuracy is {found.low:.1%} – {found.high:.1%}.{exact}

| label | texts | precision | recall | F1 |
|---|---|---|---|---|
{lines}
{more}
![Confusion matrix](confusion.svg)

{_calibration(found, raw, temperature, part)}

![Calibration](calibration.svg)
"""


def _calibration(
    found: ClassificationReport, raw: ClassificationReport, temperature: float, part: str
) -> str:
    error = f"expected calibration error on {part} {found.calibration_error:.1%}"
    if temperature == 1:
        return f"Probabilities are the model's own: {error}."
    optimistic = ", which is the data it was fitted on" * (part == "dev")
    return (
        f"Probabilities are calibrated: logits are divided by {temperature:.3f}, fitted on dev "
        f"(Guo et al. 2017); {error}{optimistic}, without {raw.calibration_error:.1%}."
    )


def _said(found: ClassificationReport, part: str) -> str:
    return (
        f"{found.accuracy:.1%} of {found.texts:,} {part} texts right ({found.low:.1%} – "
        f"{found.high:.1%}), macro-F1 {found.macro_f1:.1%}."
    )


def _confusion_table(found: ClassificationReport) -> str:
    """All of it, however many labels: had, given, texts."""
    names = (*found.names, "")  # the last is MISSED
    rows = [
        f"{names[had]}\t{names[given]}\t{texts}\n"
        for (had, given), texts in sorted(found.confusion.items())
    ]
    return "".join(["had\tgiven\ttexts\n", *rows])


class Spec(TaskSpec):
    """task: {kind: classification, balance: true}"""

    record_type: ClassVar[RecordType] = "labeled"
    requires: ClassVar[Capability] = "sequence-classification"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (LabelMetric,)
    default_metric: ClassVar[str] = "accuracy"

    balance: bool = Field(False, description="count rare labels for more, common ones for less")
    calibrate: bool = Field(True, description="fit a temperature on dev, so that p is honest")

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Classification:
        return Classification(recipe, prepared, self)
