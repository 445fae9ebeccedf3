"""How often the right label was given, for each label, and how honest the probabilities are.

What is judged goes by batch after batch and only counts are kept, so that neither texts nor
probabilities need fit in memory.

    precision    of the texts that were given a label, the share that have it
    recall       of the texts that have it, the share that were given it
    F1           their harmonic mean; macro: the mean over labels that were had or given, so that
                 rare ones count as much; micro: over all decisions
    calibration  where the model says 80 %, is it right in 80 of 100 cases? (Guo et al. 2017)
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

BINS = 15  # of confidence, as in Guo et al.
NORMAL = 1.959964  # 95 % of a normal distribution lie within so many standard deviations
THRESHOLD = 0.5  # where a text may have several labels: it has those that are at least as likely
MISSED = -1  # in a confusion: not given, where a text may have several labels

Numbers = npt.NDArray[np.float64]


def accuracy(predicted: Sequence[Hashable], actual: Sequence[Hashable]) -> float:
    """The share of predictions that are right, from 0 to 1."""
    return sum(a == b for a, b in zip(predicted, actual, strict=True)) / len(actual)


def interval(right: int, of: int) -> tuple[float, float]:
    """Where the share that was measured on so many lies with 95 % confidence (Wilson 1927)."""
    share, z = right / of, NORMAL
    middle = (share + z**2 / (2 * of)) / (1 + z**2 / of)
    half = z / (1 + z**2 / of) * (share * (1 - share) / of + z**2 / (4 * of**2)) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


class LabelMetric(Metric):
    """A metric of a classifier."""

    multi_label_only: ClassVar[bool] = False  # undefined or redundant where a text has one label

    def of_report(self, report: "Report") -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Bin:
    """Decisions of like confidence."""

    decisions: int
    confidence: float  # their mean
    right: float  # the share that were


@dataclass(frozen=True)
class OfLabel:
    """How well one label is told."""

    label: str
    precision: float
    recall: float
    f1: float
    texts: int  # that have it


@dataclass(frozen=True)
class Report:
    """What a classifier is worth on some labelled texts."""

    texts: int
    accuracy: float  # where a text may have several labels: all of them right, and no other
    low: float  # the accuracy's 95 % interval
    high: float
    macro_f1: float
    micro_f1: float
    loss: float  # −log p of what was right, by decision
    calibration_error: float  # expected: the mean distance of confidence from the share right
    labels: tuple[OfLabel, ...]
    bins: tuple[Bin, ...]
    confusion: dict[tuple[int, int], int]  # texts by label had and label given (or MISSED)
    several: bool

    @property
    def scores(self) -> dict[str, Any]:
        """Plain data for model.json: every label metric by name, and each label's scores."""
        labels = {content.pop("label"): content for content in map(asdict, self.labels)}
        interval = {"low": self.low, "high": self.high}
        return {"texts": self.texts, **self.metrics(), **interval, "labels": labels}

    def metrics(self) -> dict[str, float]:
        """Value of every label metric, by name."""
        return {metric.name: metric.of_report(self) for metric in metrics_of(LabelMetric)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.label for each in self.labels)

    def most_confused(self) -> list[tuple[str, str, int]]:
        """(had, given, texts) of all mistakes, the commonest first."""
        names = (*self.names, "missed")  # MISSED is the last
        wrong = [(pair, texts) for pair, texts in self.confusion.items() if pair[0] != pair[1]]
        wrong.sort(key=lambda each: (-each[1], each[0]))
        return [(names[had], names[given], texts) for (had, given), texts in wrong]


class Tally:
    """Counts what was judged; `report` says what they come to."""

    def __init__(self, labels: Sequence[str], several: bool) -> None:
        self._labels, self._several = tuple(labels), several
        self._right, self._wrong, self._left = np.zeros((3, len(labels)), np.int64)
        self.texts, self._exact, self._loss = 0, 0, 0.0
        self._bins = np.zeros((3, BINS))  # decisions, confidence, right ones
        self._confusion: Counter[tuple[int, int]] = Counter()

    def add(self, log_probabilities: Tensor, actual: Tensor) -> None:
        """Texts judged (B, labels); their labels are numbers (B), or 0 and 1 (B, labels)."""
        judged = log_probabilities.double().cpu()
        if self._several:
            self._add_several(judged, actual.cpu().bool())
        else:
            self._add_single(judged, actual.cpu())

    def _add_single(self, judged: Tensor, actual: Tensor) -> None:
        best, given = judged.max(-1)
        right = given == actual
        self._loss -= float(judged.gather(1, actual[:, None]).sum())
        self._bin(best.exp().numpy(), right.numpy())
        self._count(one_hot(given, judged), one_hot(actual, judged))
        self._confusion.update(zip(actual.tolist(), given.tolist(), strict=True))

    def _add_several(self, judged: Tensor, actual: Tensor) -> None:
        probability = judged.exp()
        given = probability >= THRESHOLD
        unlikely = torch.log1p(-probability.clamp(max=1 - 1e-12))
        self._loss -= float(torch.where(actual, judged, unlikely).sum())
        self._bin(probability.flatten().numpy(), actual.flatten().numpy())
        self._count(given, actual)
        wrong = given & ~actual
        for had, got, instead in zip(actual, given, wrong, strict=True):
            strays = instead.nonzero()[:, 0].tolist()
            for label in had.nonzero()[:, 0].tolist():
                self._confusion[label, label if got[label] else MISSED] += 1
                self._confusion.update((label, stray) for stray in strays)

    def _count(self, given: Tensor, actual: Tensor) -> None:
        self.texts += len(actual)
        self._exact += int((given == actual).all(1).sum())
        self._right += (given & actual).sum(0).numpy()
        self._wrong += (given & ~actual).sum(0).numpy()
        self._left += (~given & actual).sum(0).numpy()

    def _bin(self, confidence: Numbers, right: npt.NDArray[np.bool_]) -> None:
        at = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        for row, values in zip(self._bins, (None, confidence, right), strict=True):
            row += np.bincount(at, values, minlength=BINS)

    def report(self) -> Report:
        right, wrong, left = self._right, self._wrong, self._left
        decisions, confidence, correct = self._bins
        total = max(decisions.sum(), 1)
        f1 = _share(2 * right, 2 * right + wrong + left)
        met = right + wrong + left > 0
        precision, recall = _share(right, right + wrong), _share(right, right + left)
        each = zip(self._labels, precision, recall, f1, (right + left).tolist(), strict=True)
        low, high = interval(self._exact, self.texts)
        return Report(
            texts=self.texts,
            accuracy=self._exact / self.texts,
            low=low,
            high=high,
            macro_f1=float(f1[met].mean()) if met.any() else 0.0,
            micro_f1=float(_share(2 * right.sum(), (2 * right + wrong + left).sum())),
            loss=self._loss / total,
            calibration_error=float(np.abs(correct - confidence).sum() / total),
            labels=tuple(
                OfLabel(label, float(p), float(r), float(f), texts)
                for label, p, r, f, texts in each
            ),
            bins=tuple(
                Bin(int(n), sure / n, got / n) for n, sure, got in self._bins.T.tolist() if n
            ),
            confusion=dict(self._confusion),
            several=self._several,
        )


def one_hot(labels: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.bool).scatter_(1, labels[:, None], True)


def _share(part: Any, whole: Any) -> Any:
    """0 where there is nothing to have a share of."""
    return part / np.maximum(whole, 1)
