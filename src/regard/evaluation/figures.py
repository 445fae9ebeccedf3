"""Figures of a classifier's report as SVG: confusion matrix and calibration."""

from typing import Any

import numpy as np
import numpy.typing as npt

from regard.evaluation.classification import MISSED, ClassificationReport, interval
from regard.plotting import style_axes, svg_figure, write_in_cell

MAX_LABELS = 25  # in a confusion matrix: more could not be read
MAX_NUMBERED = 12  # labels up to which each cell shows its number
MAX_CHARACTERS = 24  # of a label

Numbers = npt.NDArray[np.float64]


def figures(report: ClassificationReport) -> dict[str, str]:
    """SVG by file name."""
    return {"confusion.svg": confusion(report), "calibration.svg": calibration(report)}


def confusion(report: ClassificationReport) -> str:
    """Confusion matrix: a row is an actual label, a column a predicted one; shares of the row."""
    rows = _most_confused(report)
    columns = [*rows, MISSED] if report.multi_label else rows
    counts = np.array([[report.confusion.get((a, b), 0) for b in columns] for a in rows], float)
    totals = np.array([max(report.labels[label].texts, 1) for label in rows], float)
    names = [_short(report.labels[label].label) for label in rows]
    size = max(2.6, 0.42 * len(rows) + 1.4)
    with svg_figure(size + 1.6, size + 0.5) as (figure, render):
        axes = figure.add_subplot()
        image = axes.imshow(counts / totals[:, None], cmap="Blues", vmin=0, vmax=1)
        _name_cells(axes, names, [*names, "missed"] if report.multi_label else names)
        axes.set_xlabel("predicted label")
        axes.set_ylabel("actual label")
        axes.set_title(_title(report, len(rows)), fontsize=10)
        if len(rows) <= MAX_NUMBERED:
            for (row, column), count in np.ndenumerate(counts):
                write_in_cell(axes, row, column, f"{count:,.0f}", dark=count > 0.6 * totals[row])
        figure.colorbar(image, ax=axes, shrink=0.8, label="share of the row's texts")
        return render()


def _name_cells(axes: Any, rows: list[str], columns: list[str]) -> None:
    upright = len(rows) <= 3 and max(map(len, rows)) <= 10
    axes.set_xticks(
        range(len(columns)),
        columns,
        rotation=0 if upright else 45,
        ha="center" if upright else "right",
        rotation_mode="anchor",
    )
    axes.set_yticks(range(len(rows)), rows)


def _most_confused(report: ClassificationReport) -> list[int]:
    """All labels in their order; of more than can be shown, those with the most errors."""
    labels = range(len(report.labels))
    if len(labels) <= MAX_LABELS:
        return list(labels)
    errors = np.zeros(len(labels))
    for (actual, predicted), texts in report.confusion.items():
        if actual != predicted:
            errors[actual] += texts
            errors[predicted if predicted != MISSED else actual] += texts
    most = np.argsort(-errors, kind="stable")[:MAX_LABELS]
    return sorted(most[: max(2, np.count_nonzero(errors))].tolist())


def _title(report: ClassificationReport, shown: int) -> str:
    most = f"\nthe {shown} most confused of {len(report.labels):,} labels"
    return "Confusion matrix" + most * (shown < len(report.labels))


def calibration(report: ClassificationReport) -> str:
    """Accuracy by confidence, with 95 % intervals; a calibrated model lies on the diagonal."""
    confidence = [bin_.confidence for bin_ in report.bins]
    accuracy = np.array([bin_.accuracy for bin_ in report.bins])
    spans = [
        interval(round(bin_.accuracy * bin_.decisions), bin_.decisions) for bin_ in report.bins
    ]
    margins = np.abs(np.array(spans).T - accuracy)  # below and above
    with svg_figure(4.6, 4.6) as (figure, render):
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        above.plot([0, 1], [0, 1], color="#999999", linewidth=1, label="calibrated")
        above.errorbar(
            confidence,
            accuracy,
            margins,
            marker="o",
            markersize=4,
            elinewidth=1,
            label="this model, 95 %",
        )
        above.set_ylim(-0.02, 1.02)
        above.set_title(f"Expected calibration error {report.calibration_error:.1%}", fontsize=10)
        above.legend(frameon=False)
        counts = [bin_.decisions for bin_ in report.bins]
        below.bar(confidence, counts, width=0.04)
        if max(counts) > 100 * min(counts):  # most decisions are made with high confidence
            below.set_yscale("log")
        below.set_xlim(-0.02, 1.02)
        style_axes(
            above, y_label="share that has the label" if report.multi_label else "share right"
        )
        style_axes(below, "confidence", "decisions" if report.multi_label else "texts")
        return render()


def _short(label: str) -> str:
    short = label if len(label) <= MAX_CHARACTERS else label[: MAX_CHARACTERS - 1] + "…"
    return short.replace("$", r"\$")  # a dollar sign would start a formula
