"""The columns of the table of heads, for the page and the terminal: title, unit, meaning, value."""

from collections.abc import Callable
from dataclasses import dataclass

from regard.insight.heads.statistics import LABELS, HeadStatistics
from regard.insight.heads.study import Study

# Titles in the terminal.
SHORT = {"entropy": "bits", "distance": "dist", "previous": "prev", "punctuation": "punct"}


@dataclass(frozen=True)
class Column:
    """One column; `value` is None where a head has none."""

    title: str
    unit: str
    meaning: str
    value: Callable[[HeadStatistics], str | float | None]
    digits: int = 0
    sign: str = ""  # "+" where a value above 0 is written with its sign

    def text(self, statistics: HeadStatistics) -> str:
        """Return the value of a head as it is written."""
        value = self.value(statistics)
        if value is None or isinstance(value, str):
            return value or ""
        return f"{value:{self.sign}.{self.digits}f}"

    @property
    def short(self) -> str:
        """The title in the terminal."""
        return SHORT.get(self.title, self.title)

    @property
    def is_share(self) -> bool:
        """True for a share of the attention weights, which the page draws as a bar."""
        return self.title in LABELS


def columns(study: Study) -> list[Column]:
    """Return the columns that a study has values for."""
    always = [
        Column("head", "", "kind of attention, layer, number of the head", lambda s: str(s.head)),
        Column(
            "attends to", "", "the target with more than half of the weights", lambda s: s.label
        ),
        Column(
            "entropy",
            "bits",
            "entropy: 0 for attention to one token, log₂ S to S tokens alike",
            lambda s: s.entropy,
            2,
        ),
        Column("distance", "tokens", "mean distance from query to key", lambda s: s.distance, 1),
        *(_share(target, name) for target, name in LABELS.items()),
    ]
    importance = study.importance
    if importance is None:
        return always
    measured, estimated = (
        {head: 100 * rise / importance.loss for head, rise in rises.items()}
        for rises in (importance.measured, importance.estimated)
    )
    return [
        *always,
        Column(
            "rise",
            "% of the loss",
            "increase of the loss without the head",
            lambda s: measured[s.head],
            2,
            "+",
        ),
        Column(
            "grad",
            "% of the loss",
            "the same, estimated by the gradient (Michel et al. 2019)",
            lambda s: estimated[s.head],
            2,
        ),
    ]


def _share(target: str, name: str) -> Column:
    def percent(statistics: HeadStatistics) -> float | None:
        share = statistics.shares.get(target)
        return None if share is None else 100 * share

    return Column(target, "%", f"share of the attention weights: {name}", percent)
