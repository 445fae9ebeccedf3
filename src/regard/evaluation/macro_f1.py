"""Macro-F1: the mean of the F1 of all labels, so that rare labels count as much as common ones."""

from typing import ClassVar

from regard.evaluation.classification import ClassificationReport, LabelMetric


class Spec(LabelMetric):
    label: ClassVar[str] = "macro-F1"
    higher_is_better: ClassVar[bool] = True
    percent: ClassVar[bool] = True

    def of_report(self, report: ClassificationReport) -> float:
        return report.macro_f1
