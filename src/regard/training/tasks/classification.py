"""Classification: labeled texts, cross-entropy over the labels; accuracy, F1, calibration.

Where a text may have several labels, each label is a binary decision.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from regard.config import plain
from regard.data.batches.base import Batches
from regard.data.batches.labeled import LabeledBatch, ParsedBatch, labeled_batches, parsed_batches
from regard.data.records import LengthLimits
from regard.data.sampling.sampler import Rows
from regard.data.sources.base import RecordType
from regard.data.sources.characters import quote
from regard.data.store.prepare import Prepared
from regard.data.store.store import Store
from regard.data.truncation import Keep
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
from regard.training.tasks.bound import BatchTask

if TYPE_CHECKING:
    from regard.training.recipe import Recipe

AnyLabeledBatch = LabeledBatch | ParsedBatch  # parsed: with trees, for models that need them

MAX_LOGITS = 2**24  # to fit a temperature on: more would not change it
MAX_LABELS = 30  # in the table of a model card


class Classification(BatchTask[AnyLabeledBatch]):
    """Classification on the data of one recipe."""

    unit = "texts"

    def __init__(self, recipe: "Recipe", prepared: Prepared, spec: "Spec") -> None:
        self.spec = spec
        self.labels, self.label_format = prepared.labels, recipe.data.labels
        if len(self.labels) < 2:
            raise DataError(
                f"data.train: there is only one label, {quote(self.labels[0])}; "
                f"a classifier needs at least two."
            )
        super().__init__(recipe, prepared)
        if self.metric not in [metric.name for metric in self._metrics()]:
            raise ConfigError(
                f"training.evaluation.metric: {self.metric} is for texts with several labels, and "
                f"here each has one; choose accuracy."
            )
        self.targets_per_unit = self._classes or 1
        self._weights = self._class_weights() if spec.balance else None

    def model(self) -> ModelSpec:
        """Return the model's spec with as many classes as the training data have labels."""
        return super().model().model_copy(update={"classes": len(self.labels)})

    def loss(self, model: nn.Module, batch: AnyLabeledBatch) -> Tensor:
        smoothing = self.recipe.training.label_smoothing
        logits = model(*batch.inputs)
        weights = None if self._weights is None else self._weights.to(logits)
        return classification_loss(logits, batch.labels, smoothing, weights).sum()

    def evaluate(self, model: nn.Module, world: World) -> dict[str, float]:
        (report,) = self._reports((self.predictor(model),), self.prepared.dev, world.device)
        return {metric.name: metric.of_report(report) for metric in self._metrics()}

    def _metrics(self) -> list[LabelMetric]:
        """Return the metrics to compute at an evaluation on the dev data."""
        several = self.label_format.several
        metrics = evaluation_metrics(LabelMetric, self.metric)
        return [metric for metric in metrics if several or not metric.multi_label_only]

    def predictor(self, model: nn.Module) -> Classifier:
        return self._classifier(model, temperature=1.0)

    def final_evaluation(self, model: nn.Module, report: Reporter) -> TaskResult:
        split, store = self.prepared.final_split
        device = next(model.parameters()).device
        with report.busy("Calibrating on dev …"):
            temperature = self._temperature(model, device) if self.spec.calibrate else 1.0
        predictor = self._classifier(model, temperature)
        with report.bar(f"Scoring on {split}", len(store), "texts") as advance:
            classifiers = (predictor, self.predictor(model))
            calibrated, raw = self._reports(classifiers, store, device, advance)
        return TaskResult(
            predictor=predictor,
            title=f"A classifier: {', '.join(self.labels[:10])}{', …' * (len(self.labels) > 10)}",
            card=self._card(calibrated, raw, temperature, split),
            details={
                "labels": list(self.labels),
                "max_length": self.recipe.model.max_length,
                "num_texts": predictor.num_texts,
                "label_format": plain(self.label_format),
                "temperature": temperature,
                **({} if predictor.truncate is None else {"truncate": predictor.truncate}),
                **({} if predictor.tree_source is None else {"tree_source": predictor.tree_source}),
                "scores": calibrated.scores,
                "scored_on": split,
            },
            documents={"confusion.tsv": _confusion_table(calibrated), **figures(calibrated)},
            summary=_summary(calibrated, split),
        )

    def _classifier(self, model: nn.Module, temperature: float) -> Classifier:
        return Classifier(
            model,
            self.prepared.tokenizer,
            self.labels,
            self.recipe.model.max_length,
            self.prepared.train.num_texts,
            self.label_format,
            temperature,
            self._tree_source,
            self.spec.truncate,
        )

    @property
    def _tree_source(self) -> dict[str, Any] | None:
        """Return the source of trees for a model that needs them: train's, without its path."""
        if not self.recipe.model.needs_trees:
            return None
        source = plain(self.recipe.data.train[0], as_written=False)
        return {key: value for key, value in source.items() if key not in ("path", "weight")}

    @property
    def _classes(self) -> int | None:
        """Return the number of binary decisions of a text; None where it has one label."""
        return len(self.labels) if self.label_format.several else None

    def _batches(self, store: Store, budget: int, seed: int) -> Batches[Rows, AnyLabeledBatch]:
        make = parsed_batches if self.recipe.model.needs_trees else labeled_batches
        batches = make(store, self.prepared.tokenizer, budget, seed, self._classes)
        return cast("Batches[Rows, AnyLabeledBatch]", batches)

    def _class_weights(self) -> Tensor:
        """Return the weight of each label's loss, so that all labels have equal total weight."""
        numbers = np.concatenate(self.prepared.train.labels(np.arange(len(self.prepared.train))))
        counts = np.maximum(np.bincount(numbers, minlength=len(self.labels)), 1)
        texts = len(self.prepared.train)
        if self.label_format.several:
            return torch.from_numpy((texts - counts) / counts)  # against the texts without it
        return torch.from_numpy(texts / (len(counts) * counts))

    def _logits(
        self, model: nn.Module, store: Store, device: torch.device
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the logits and the labels of all texts, batch by batch."""
        with torch.no_grad():
            for cpu_batch in self._in_order(store, self.recipe.model.max_length).epoch():
                batch = cpu_batch.to(device)
                yield model(*batch.inputs), batch.labels

    def _reports(
        self,
        classifiers: Sequence[Classifier],
        store: Store,
        device: torch.device,
        advance: Callable[[int], None] = lambda _: None,
    ) -> list[ClassificationReport]:
        """Evaluate classifiers that have one model and differ in their temperatures."""
        tallies = [PredictionCounter(self.labels, self.label_format.several) for _ in classifiers]
        for logits, labels in self._logits(classifiers[0].model, store, device):
            for tally, classifier in zip(tallies, classifiers, strict=True):
                tally.add(classifier.calibrate(logits), labels)
            advance(len(labels))
        return [tally.report() for tally in tallies]

    def _temperature(self, model: nn.Module, device: torch.device) -> float:
        """Fit the temperature on the dev data, at most MAX_LOGITS logits of them."""
        logits: list[Tensor] = []
        labels: list[Tensor] = []
        for batch_logits, batch_labels in self._logits(model, self.prepared.dev, device):
            logits.append(batch_logits.cpu())
            labels.append(batch_labels.cpu())
            if sum(map(Tensor.numel, logits)) > MAX_LOGITS:
                break
        return fit_temperature(torch.cat(logits), torch.cat(labels))

    def _card(
        self,
        report: ClassificationReport,
        raw: ClassificationReport,
        temperature: float,
        split: str,
    ) -> str:
        rows = sorted(report.labels, key=lambda row: -row.texts)
        lines = "\n".join(
            f"| {row.label.replace('|', '¦')} | {row.texts:,} | {row.precision:.1%} | "
            f"{row.recall:.1%} | {row.f1:.1%} |"
            for row in rows[:MAX_LABELS]
        )
        more = f"\nThe {MAX_LABELS} most frequent of {len(rows):,} labels.\n" * (
            len(rows) > MAX_LABELS
        )
        metrics = metrics_of(LabelMetric)
        values = " | ".join(metric.show(metric.of_report(report)) for metric in metrics)
        headings = " | ".join(metric.label for metric in metrics)
        exact = " Accuracy counts texts with all labels right." * report.multi_label
        return f"""| {split} texts | {headings} |
|---|{"---|" * len(metrics)}
| {report.texts:,} | {values} |

The 95 % interval of the accuracy is {report.low:.1%} – {report.high:.1%}.{exact}

| label | texts | precision | recall | F1 |
|---|---|---|---|---|
{lines}
{more}
![Confusion matrix](confusion.svg)

{_calibration(report, raw, temperature, split)}

![Calibration](calibration.svg)
"""


def _calibration(
    report: ClassificationReport, raw: ClassificationReport, temperature: float, split: str
) -> str:
    error = f"expected calibration error on {split} {report.calibration_error:.1%}"
    if temperature == 1:
        return f"Probabilities are the model's own: {error}."
    caveat = ", which is the data it was fitted on" * (split == "dev")
    return (
        f"Probabilities are calibrated: logits are divided by {temperature:.3f}, fitted on dev "
        f"(Guo et al. 2017); {error}{caveat}, without {raw.calibration_error:.1%}."
    )


def _summary(report: ClassificationReport, split: str) -> str:
    return (
        f"{report.accuracy:.1%} of {report.texts:,} {split} texts right ({report.low:.1%} – "
        f"{report.high:.1%}), macro-F1 {report.macro_f1:.1%}."
    )


def _confusion_table(report: ClassificationReport) -> str:
    """Return the confusion matrix as a table: label, prediction, number of texts."""
    names = (*report.names, "")  # the last is MISSED
    rows = [
        f"{names[label]}\t{names[prediction]}\t{texts}\n"
        for (label, prediction), texts in sorted(report.confusion.items())
    ]
    return "".join(["label\tprediction\ttexts\n", *rows])


class Spec(TaskSpec):
    """task: {kind: classification, balance: true}"""

    record_type: ClassVar[RecordType] = "labeled"
    requires: ClassVar[Capability] = "sequence-classification"
    default_model: ClassVar[str] = "classifier"
    metric_types: ClassVar[tuple[type[Metric], ...]] = (LabelMetric,)
    default_metric: ClassVar[str] = "accuracy"

    balance: bool = Field(False, description="weight the labels' losses by inverse frequency")
    calibrate: bool = Field(
        True, description="fit a temperature on dev, so that probabilities are calibrated"
    )

    truncate: Keep | None = Field(
        None,
        description="cut texts that are too long for the model and keep their head, tail or both "
        "ends; default: drop them",
    )

    def length_limits(self, model: ModelSpec) -> LengthLimits:
        return replace(super().length_limits(model), truncate=self.truncate)

    def bind(self, recipe: "Recipe", prepared: Prepared) -> Classification:
        return Classification(recipe, prepared, self)
