"""ROUGE-L: the longest subsequence that a summary and its reference have in common."""

from typing import ClassVar

from regard.evaluation._rouge import RougeMetric


class Spec(RougeMetric):
    label: ClassVar[str] = "ROUGE-L"
    variant: ClassVar[str] = "rougeL"
    at_every_evaluation: ClassVar[bool] = False
