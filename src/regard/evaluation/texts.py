"""Metrics of generated texts against references: translations and summaries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.errors import DataError
from regard.evaluation.base import Metric, metrics_of


class TextScore(NamedTuple):
    value: float
    signature: str = ""  # settings and version of the implementation, so that others can compare


class TextMetric(Metric):
    """A metric of generated texts against references."""

    def score(
        self,
        outputs: Sequence[str],
        references: Sequence[Sequence[str]],
        lowercase: bool = False,
    ) -> TextScore:
        """Score a corpus; each output has one or more references."""
        raise NotImplementedError


class TranslationMetric(TextMetric):
    """A metric of translations."""


class SummaryMetric(TextMetric):
    """A metric of summaries."""


@dataclass(frozen=True)
class TextScores:
    """Values of several metrics on one corpus."""

    values: dict[str, float]  # by the name of the metric
    signatures: dict[str, str]  # by the name of the metric, of those that have one
    count: int  # outputs

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def to_plain(self, counted: str) -> dict[str, Any]:
        """Plain data for model.json; `counted` names the number of outputs: pairs, texts."""
        return {**self.values, counted: self.count, "signatures": self.signatures}


def score_texts(
    metrics: Sequence[TextMetric],
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    lowercase: bool = False,
) -> TextScores:
    """Score outputs with several metrics; each output has one or more references.

    Raises:
        DataError: there are no outputs, or an output has no reference.
    """
    check_alignment(outputs, references)
    scores = {metric.name: metric.score(outputs, references, lowercase) for metric in metrics}
    return TextScores(
        values={name: score.value for name, score in scores.items()},
        signatures={name: score.signature for name, score in scores.items() if score.signature},
        count=len(outputs),
    )


def check_alignment(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse outputs and references of different number: sacrebleu would score the shorter."""
    if not references or len(outputs) != len(references) or not all(references):
        raise DataError(
            f"{len(outputs):,} outputs cannot be scored against the references of "
            f"{len(references):,} texts: give at least one output, and for each output one "
            f"reference or more."
        )


def score_translations(
    outputs: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> TextScores:
    """Score translations with every translation metric, against one reference each."""
    single = [[reference] for reference in references]
    return score_texts(metrics_of(TranslationMetric), outputs, single, lowercase)


def score_summaries(outputs: Sequence[str], references: Sequence[Sequence[str]]) -> TextScores:
    """Score summaries with every summary metric, against one or more references each."""
    return score_texts(metrics_of(SummaryMetric), outputs, references)
