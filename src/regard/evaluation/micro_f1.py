"""Micro-F1: the F1 over all decisions; where a text has one label it equals the accuracy."""

from typing import ClassVar

from regard.evaluation.classification import ClassificationReport, LabelMetric


class Spec(LabelMetric):
    label: ClassVar[str] = "micro-F1"
    higher_is_better: ClassVar[bool] = True
    percent: ClassVar[bool] = True
    multi_label_only: ClassVar[bool] = True

    def of_report(self, report: ClassificationReport) -> float:
        return report.micro_f1
