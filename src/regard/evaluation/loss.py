"""Loss: the mean cross-entropy, in nats, of a token or of a decision; without label smoothing."""

from typing import ClassVar

from regard.evaluation.classification import ClassificationReport, LabelMetric
from regard.evaluation.tokens import LossMetric


class Spec(LossMetric, LabelMetric):
    label: ClassVar[str] = "loss"
    higher_is_better: ClassVar[bool] = False
    digits: ClassVar[int] = 4

    def of_loss(self, loss: float) -> float:
        return loss

    def of_report(self, report: ClassificationReport) -> float:
        return report.loss
