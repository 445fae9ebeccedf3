"""Exact match: the share of outputs equal to one of their references."""

from collections.abc import Sequence
from typing import ClassVar

from regard.evaluation.texts import TextScore, TranslationMetric


class Spec(TranslationMetric):
    label: ClassVar[str] = "exact"
    higher_is_better: ClassVar[bool] = True
    percent: ClassVar[bool] = True
    at_every_evaluation: ClassVar[bool] = False

    def score(
        self, outputs: Sequence[str], references: Sequence[Sequence[str]], lowercase: bool = False
    ) -> TextScore:
        form = str.lower if lowercase else str
        equal = sum(
            form(output) in map(form, texts)
            for output, texts in zip(outputs, references, strict=True)
        )
        return TextScore(equal / len(outputs))
