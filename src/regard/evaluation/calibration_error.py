"""Expected calibration error (Guo et al. 2017): the mean distance of confidence from accuracy."""

from typing import ClassVar

from regard.evaluation.classification import ClassificationReport, LabelMetric


class Spec(LabelMetric):
    label: ClassVar[str] = "calibration error"
    higher_is_better: ClassVar[bool] = False
    percent: ClassVar[bool] = True
    at_every_evaluation: ClassVar[bool] = False

    def of_report(self, report: ClassificationReport) -> float:
        return report.calibration_error
