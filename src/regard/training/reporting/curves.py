"""Curves of a training run as SVG: the loss over steps, and the dev scores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.evaluation.base import Metric, metrics_of
from regard.plotting import Line, plot_lines

SMOOTHING = 0.95  # of the plotted loss: the loss of one batch is noisy


def curves(events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """SVG by name: loss, and one for each dev score that is a metric."""
    steps = [event for event in events if "loss" in event]
    scores = _dev_scores(events)
    figures = {}
    if steps:
        losses = _smooth(_numbers(event["loss"] for event in steps))
        lines = {"training": Line([event["step"] for event in steps], losses, markers=False)}
        if "loss" in scores:
            lines["dev"] = scores["loss"]
        figures["loss"] = plot_lines(lines, "step", "loss per token")
    for metric in metrics_of(Metric):
        name = metric.name
        if name != "loss" and name in scores:
            figures[name] = plot_lines({"dev": scores[name]}, "step", metric.label)
    return figures


def _dev_scores(events: Sequence[Mapping[str, Any]]) -> dict[str, Line]:
    """Return each score over the steps at which it was computed: a resumed run may add some."""
    points: dict[str, list[tuple[int, float | None]]] = {}
    for event in events:
        for name, value in (event.get("scores") or {}).items():
            points.setdefault(name, []).append((event["step"], value))
    return {
        name: Line([step for step, _ in values], _numbers(value for _, value in values))
        for name, values in points.items()
    }


def _numbers(values: Iterable[float | None]) -> list[float]:
    """NaN for null, which stands for a number that is not finite in metrics.jsonl."""
    return [float("nan") if value is None else value for value in values]


def _smooth(values: Sequence[float]) -> list[float]:
    smoothed, weight, running = [], 0.0, 0.0
    for value in values:
        if np.isfinite(value):
            running = SMOOTHING * running + (1 - SMOOTHING) * value
            weight = SMOOTHING * weight + 1 - SMOOTHING
        smoothed.append(running / weight if weight else float("nan"))
    return smoothed
