"""Accuracy: the share of predictions that are correct."""

from typing import ClassVar

from regard.evaluation.classification import ClassificationReport, LabelMetric
from regard.evaluation.tokens import TokenCounts, TokenMetric


class Spec(TokenMetric, LabelMetric):
    label: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True
    percent: ClassVar[bool] = True

    def of_tokens(self, counts: TokenCounts) -> float:
        return counts.correct / counts.tokens

    def of_report(self, report: ClassificationReport) -> float:
        return report.accuracy
