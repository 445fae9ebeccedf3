"""ROUGE-1: unigrams that a summary and its reference have in common."""

from typing import ClassVar

from regard.evaluation._rouge import RougeMetric


class Spec(RougeMetric):
    label: ClassVar[str] = "ROUGE-1"
    variant: ClassVar[str] = "rouge1"
    at_every_evaluation: ClassVar[bool] = False
