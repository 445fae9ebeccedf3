"""ROUGE-2: bigrams that a summary and its reference have in common."""

from typing import ClassVar

from regard.evaluation._rouge import RougeMetric


class Spec(RougeMetric):
    label: ClassVar[str] = "ROUGE-2"
    variant: ClassVar[str] = "rouge2"
    at_every_evaluation: ClassVar[bool] = False
