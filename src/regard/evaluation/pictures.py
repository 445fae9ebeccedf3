"""What a classifier confuses, and how honest its probabilities are, as SVG."""

from typing import Any

import numpy as np
import numpy.typing as npt

from regard.evaluation.classification import MISSED, Report, interval
from regard.plotting import figure_of

MOST = 25  # labels in a picture: more could not be read
NUMBERED = 12  # up to so many, each cell has its number
WIDEST = 24  # characters of a label

Numbers = npt.NDArray[np.float64]


def pictures(report: Report) -> dict[str, str]:
    """SVG by the name of its file."""
    return {"confusion.svg": confusion(report), "calibration.svg": calibration(report)}


def confusion(report: Report) -> str:
    """A row is a label that texts have, a column one that they were given; shares of the row."""
    chosen = _most_confused(report)
    given = [*chosen, MISSED] if report.several else chosen
    counts = np.array([[report.confusion.get((a, b), 0) for b in given] for a in chosen], float)
    had = np.array([max(report.labels[label].texts, 1) for label in chosen], float)
    names = [_short(report.labels[label].label) for label in chosen]
    size = max(2.6, 0.42 * len(chosen) + 1.4)
    with figure_of(size + 1.6, size + 0.5) as (figure, save):
        axes = figure.add_subplot()
        shown = axes.imshow(counts / had[:, None], cmap="Blues", vmin=0, vmax=1)
        upright = len(chosen) <= 3 and max(map(len, names)) <= 10
        columns = [*names, "missed"] if report.several else names
        axes.set_xticks(
            range(len(columns)),
            columns,
            rotation=0 if upright else 45,
            ha="center" if upright else "right",
            rotation_mode="anchor",
        )
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("label given")
        axes.set_ylabel("label had")
        axes.set_title(_title(report, len(chosen)), fontsize=10)
        if len(chosen) <= NUMBERED:
            _number(axes, counts, had)
        figure.colorbar(shown, ax=axes, shrink=0.8, label="share of the row's texts")
        return save()


def _most_confused(report: Report) -> list[int]:
    """All labels in their order; of very many, those with the most mistakes between them."""
    labels = range(len(report.labels))
    if len(labels) <= MOST:
        return list(labels)
    mistakes = np.zeros(len(labels))
    for (had, given), texts in report.confusion.items():
        if had != given:
            mistakes[had] += texts
            mistakes[given if given != MISSED else had] += texts
    most = np.argsort(-mistakes, kind="stable")[:MOST]
    return sorted(most[: max(2, np.count_nonzero(mistakes))].tolist())


def _title(report: Report, shown: int) -> str:
    most = f"\nthe {shown} most confused of {len(report.labels):,} labels"
    return "What was taken for what" + most * (shown < len(report.labels))


def _number(axes: Any, counts: Numbers, had: Numbers) -> None:
    for (row, column), count in np.ndenumerate(counts):
        axes.text(
            column,
            row,
            f"{count:,.0f}",
            ha="center",
            va="center",
            fontsize=9,
            color="white" if count > 0.6 * had[row] else "#222222",
        )


def calibration(report: Report) -> str:
    """How often the model is right where it is so sure; on the line, it is honest."""
    sure = [each.confidence for each in report.bins]
    right = np.array([each.right for each in report.bins])
    spans = [interval(round(each.right * each.decisions), each.decisions) for each in report.bins]
    margins = np.abs(np.array(spans).T - right)  # below and above
    with figure_of(4.6, 4.6) as (figure, save):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        above.plot([0, 1], [0, 1], color="#999999", linewidth=1, label="as sure as right")
        above.errorbar(
            sure, right, margins, marker="o", markersize=4, elinewidth=1, label="this model, 95 %"
        )
        above.set_ylabel("share that has the label" if report.several else "share right")
        above.set_ylim(-0.02, 1.02)
        above.set_title(f"Expected calibration error {report.calibration_error:.1%}", fontsize=10)
        above.legend(frameon=False)
        counts = [each.decisions for each in report.bins]
        below.bar(sure, counts, width=0.04)
        if max(counts) > 100 * min(counts):  # most decisions are easy ones
            below.set_yscale("log")
        below.set_ylabel("decisions" if report.several else "texts")
        below.set_xlabel("probability given")
        below.set_xlim(-0.02, 1.02)
        for axes in (above, below):
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        return save()


def _short(label: str) -> str:
    # A dollar sign would begin a formula.
    return (label if len(label) <= WIDEST else label[: WIDEST - 1] + "…").replace("$", r"\$")
