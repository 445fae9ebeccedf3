"""Perplexity: exp of the mean cross-entropy of a token."""

import math
from typing import ClassVar

from regard.evaluation.tokens import LossMetric

LARGEST_EXPONENT = 700.0  # exp of more overflows a float


class Spec(LossMetric):
    label: ClassVar[str] = "perplexity"
    higher_is_better: ClassVar[bool] = False
    digits: ClassVar[int] = 2

    def of_loss(self, loss: float) -> float:
        return math.exp(loss) if loss < LARGEST_EXPONENT else math.inf
