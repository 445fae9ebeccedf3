"""Base classes of the metrics. A metric is a kind: one file in this package, named by the file.

    training: {evaluation: {metric: chrf}}        is the class `Spec` in `evaluation/chrf.py`

A metric declares whether a higher value is better; training asks it which of two checkpoints to
keep, and curves, progress, cards, tables and `regard evaluate` ask it how to show a value. There is
no list of metrics to edit: a task computes every metric that derives from the base class of its
inputs.

    TranslationMetric (texts.py)          translations and references       bleu, chrf …
    SummaryMetric (texts.py)              summaries and references          rouge1, rouge2, rouge_l
    LossMetric (tokens.py)                mean cross-entropy of a token     loss, perplexity
    TokenMetric (tokens.py)               counts of predicted tokens        these two and accuracy
    LabelMetric (classification.py)       the report of a classifier        accuracy, macro_f1 …
"""

import math
from typing import Any, ClassVar, TypeVar

from regard.config import Kind, kind_specs, validate


class Metric(Kind, package="regard.evaluation"):
    """A metric kind.

    A file that does not say whether a higher value is better is refused when it is imported, so
    that no default can make training keep the worst checkpoint.
    """

    label: ClassVar[str]  # heading of its column, axis and progress entry
    higher_is_better: ClassVar[bool]
    digits: ClassVar[int] = 1  # after the decimal point
    percent: ClassVar[bool] = False  # values from 0 to 1, shown as percentages
    # Computed at every evaluation on the dev data; other metrics only if they select the best
    # checkpoint, and at the end.
    at_every_evaluation: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__name__ == "Spec":
            for required in ("label", "higher_is_better"):
                if not hasattr(cls, required):
                    raise TypeError(f"{cls.__module__}: a metric must define {required}")

    @property
    def name(self) -> str:
        """Name in recipes, metrics.jsonl and model.json: the name of its file."""
        return self.kind().replace("-", "_")

    def is_better(self, score: float, best: float | None) -> bool:
        """True if `score` is better than the best score so far (None: there is none yet).

        A score that is not finite is never better.
        """
        if not math.isfinite(score):
            return False
        return best is None or (score > best if self.higher_is_better else score < best)

    def show(self, value: float, digits: int | None = None) -> str:
        """Format a value for people: 34.6, or 97.3% if the metric is a percentage."""
        digits = self.digits if digits is None else digits
        return f"{value:.{digits}%}" if self.percent else f"{value:,.{digits}f}"


M = TypeVar("M", bound=Metric)


def metric_named(name: str) -> Metric:
    """Return the metric of this name.

    Raises:
        ConfigError: there is no such metric; the message lists those that exist.
    """
    return validate(Metric, name, "metric")


def metrics_of(base: type[M]) -> list[M]:
    """Return all metrics that derive from `base`, sorted by name."""
    return [spec() for spec in kind_specs(Metric.package) if issubclass(spec, base)]


def evaluation_metrics(base: type[M], selected: str) -> list[M]:
    """Return the metrics of `base` to compute at an evaluation on the dev data.

    Text metrics need decoding, so none is computed unless `selected`, the metric that selects the
    best checkpoint, is one of them.
    """
    metrics = metrics_of(base)
    if selected not in [metric.name for metric in metrics]:
        return []
    return [metric for metric in metrics if metric.at_every_evaluation or metric.name == selected]
