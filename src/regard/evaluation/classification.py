"""Scores of a classifier: accuracy, precision, recall and F1 of each label, and calibration.

Batches of predictions are reduced to counts at once, so that neither texts nor probabilities need
fit in memory.

    precision    share of the texts with the predicted label that have it
    recall       share of the texts with the actual label for which it was predicted
    F1           harmonic mean of both; macro: the mean over labels that are actual or predicted
                 at least once, so that rare ones count as much; micro: over all decisions
    calibration  distance of the confidence of decisions from their accuracy (Guo et al. 2017)
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.evaluation.base import Metric, metrics_of
from regard.evaluation.threshold import THRESHOLD

BINS = 15  # of confidence, as in Guo et al.
Z_95 = 1.959964  # standard deviations around the mean that hold 95 % of a normal distribution
MISSED = -1  # multi-label: in a confusion, the column of labels that were not predicted

Numbers = npt.NDArray[np.float64]


def accuracy(predicted: Sequence[Hashable], actual: Sequence[Hashable]) -> float:
    """Share of right predictions, from 0 to 1."""
    return sum(a == b for a, b in zip(predicted, actual, strict=True)) / len(actual)


def interval(right: int, total: int) -> tuple[float, float]:
    """95 % confidence interval of the share right / total (Wilson 1927)."""
    share, z = right / total, Z_95
    middle = (share + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z / (1 + z**2 / total) * (share * (1 - share) / total + z**2 / (4 * total**2)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


class LabelMetric(Metric):
    """A metric of a classifier."""

    multi_label_only: ClassVar[bool] = False  # undefined or redundant where a text has one label

    def of_report(self, report: "ClassificationReport") -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Bin:
    """Decisions of similar confidence."""

    decisions: int
    confidence: float  # mean
    accuracy: float


@dataclass(frozen=True)
class LabelScores:
    """Scores of one label."""

    label: str
    precision: float
    recall: float
    f1: float
    texts: int  # with this actual label


@dataclass(frozen=True)
class ClassificationReport:
    """Scores of a classifier on labeled texts."""

    texts: int
    accuracy: float  # multi-label: share of texts with exactly the actual labels
    low: float  # 95 % interval of the accuracy
    high: float
    macro_f1: float
    micro_f1: float
    loss: float  # mean −log p of a decision
    calibration_error: float  # expected calibration error
    labels: tuple[LabelScores, ...]
    bins: tuple[Bin, ...]
    confusion: dict[tuple[int, int], int]  # texts by (actual, predicted or MISSED)
    multi_label: bool

    @property
    def scores(self) -> dict[str, Any]:
        """Plain data for model.json: every label metric by name, and each label's scores."""
        labels = {content.pop("label"): content for content in map(asdict, self.labels)}
        interval = {"accuracy_low": self.low, "accuracy_high": self.high}
        return {"texts": self.texts, **self.metrics(), **interval, "labels": labels}

    def metrics(self) -> dict[str, float]:
        """Value of every label metric, by name."""
        return {metric.name: metric.of_report(self) for metric in metrics_of(LabelMetric)}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the labels, by number."""
        return tuple(scores.label for scores in self.labels)

    def most_confused(self) -> list[tuple[str, str, int]]:
        """All errors as (actual, predicted, texts), the most frequent first."""
        names = (*self.names, "missed")  # MISSED is the index of the last
        errors = [(pair, texts) for pair, texts in self.confusion.items() if pair[0] != pair[1]]
        errors.sort(key=lambda error: (-error[1], error[0]))
        return [(names[actual], names[predicted], texts) for (actual, predicted), texts in errors]


class PredictionCounter:
    """Count predictions batch by batch, then `report` their scores.

    Args:
        labels: names of the labels, by number.
        multi_label: a text may have several labels; each is then a decision of its own.
    """

    def __init__(self, labels: Sequence[str], multi_label: bool) -> None:
        self._labels, self._multi_label = tuple(labels), multi_label
        counts = np.zeros((3, len(labels)), np.int64)  # of each label
        self._true_positives, self._false_positives, self._false_negatives = counts
        self.texts, self._exact, self._loss = 0, 0, 0.0
        self._bins = np.zeros((3, BINS))  # decisions, sum of confidence, right decisions
        self._confusion: Counter[tuple[int, int]] = Counter()

    def add(self, log_probabilities: Tensor, actual: Tensor) -> None:
        """Count a batch.

        Args:
            log_probabilities: of the labels (B, labels).
            actual: label numbers (B,), or 0 and 1 of each label (B, labels).
        """
        log_probabilities = log_probabilities.double().cpu()
        if self._multi_label:
            self._add_multi_label(log_probabilities, actual.cpu().bool())
        else:
            self._add_single_label(log_probabilities, actual.cpu())

    def _add_single_label(self, log_probabilities: Tensor, actual: Tensor) -> None:
        best, predicted = log_probabilities.max(-1)
        right = predicted == actual
        self._loss -= float(log_probabilities.gather(1, actual[:, None]).sum())
        self._count_bins(best.exp().numpy(), right.numpy())
        self._count(one_hot(predicted, log_probabilities), one_hot(actual, log_probabilities))
        self._confusion.update(zip(actual.tolist(), predicted.tolist(), strict=True))

    def _add_multi_label(self, log_probabilities: Tensor, actual: Tensor) -> None:
        probabilities = log_probabilities.exp()
        predicted = probabilities >= THRESHOLD
        log_complements = torch.log1p(-probabilities.clamp(max=1 - 1e-12))
        self._loss -= float(torch.where(actual, log_probabilities, log_complements).sum())
        self._count_bins(probabilities.flatten().numpy(), actual.flatten().numpy())
        self._count(predicted, actual)
        for actual_row, predicted_row in zip(actual, predicted, strict=True):
            wrong = (predicted_row & ~actual_row).nonzero()[:, 0].tolist()
            for label in actual_row.nonzero()[:, 0].tolist():
                self._confusion[label, label if predicted_row[label] else MISSED] += 1
                self._confusion.update((label, other) for other in wrong)

    def _count(self, predicted: Tensor, actual: Tensor) -> None:
        self.texts += len(actual)
        self._exact += int((predicted == actual).all(1).sum())
        self._true_positives += (predicted & actual).sum(0).numpy()
        self._false_positives += (predicted & ~actual).sum(0).numpy()
        self._false_negatives += (~predicted & actual).sum(0).numpy()

    def _count_bins(self, confidence: Numbers, right: npt.NDArray[np.bool_]) -> None:
        bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        for row, values in zip(self._bins, (None, confidence, right), strict=True):
            row += np.bincount(bins, values, minlength=BINS)

    def report(self) -> ClassificationReport:
        """Scores of all predictions so far."""
        tp, fp, fn = self._true_positives, self._false_positives, self._false_negatives
        decisions, confidence, correct = self._bins
        total = max(decisions.sum(), 1)
        f1 = _share(2 * tp, 2 * tp + fp + fn)
        occurs = tp + fp + fn > 0
        precision, recall = _share(tp, tp + fp), _share(tp, tp + fn)
        by_label = zip(self._labels, precision, recall, f1, (tp + fn).tolist(), strict=True)
        low, high = interval(self._exact, self.texts)
        return ClassificationReport(
            texts=self.texts,
            accuracy=self._exact / self.texts,
            low=low,
            high=high,
            macro_f1=float(f1[occurs].mean()) if occurs.any() else 0.0,
            micro_f1=float(_share(2 * tp.sum(), (2 * tp + fp + fn).sum())),
            loss=self._loss / total,
            calibration_error=float(np.abs(correct - confidence).sum() / total),
            labels=tuple(
                LabelScores(label, float(p), float(r), float(f), texts)
                for label, p, r, f, texts in by_label
            ),
            bins=tuple(
                Bin(int(n), confident / n, right / n)
                for n, confident, right in self._bins.T.tolist()
                if n
            ),
            confusion=dict(self._confusion),
            multi_label=self._multi_label,
        )


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    """Boolean (B, labels), True at the label numbers (B,); shape and device of `like`."""
    return torch.zeros_like(like, dtype=torch.bool).scatter_(1, labels[:, None], True)


def _share(part: Any, whole: Any) -> Any:
    """part / whole, and 0 where whole is 0."""
    return part / np.maximum(whole, 1)
