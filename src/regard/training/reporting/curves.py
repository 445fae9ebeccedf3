"""Curves of a training run as SVG: the loss over steps, and the dev scores."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.evaluation.base import metric_named
from regard.plotting import Line, plot_lines

SMOOTHING = 0.95  # of the plotted loss: the loss of one batch is noisy


def curves(events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """SVG by name: loss, and one for each dev score."""
    steps = [event for event in events if "loss" in event]
    evaluations = [event for event in events if "scores" in event]
    figures = {}
    if steps:
        losses = _smooth(_numbers(event["loss"] for event in steps))
        lines = {"training": Line([event["step"] for event in steps], losses, markers=False)}
        if evaluations and "loss" in evaluations[0]["scores"]:
            lines["dev"] = _scores(evaluations, "loss")
        figures["loss"] = plot_lines(lines, "step", "loss per token")
    for name in evaluations[0]["scores"] if evaluations else ():
        if name != "loss":
            line = _scores(evaluations, name)
            figures[name] = plot_lines({"dev": line}, "step", metric_named(name).label)
    return figures


def _scores(evaluations: Sequence[Mapping[str, Any]], name: str) -> Line:
    steps = [event["step"] for event in evaluations]
    return Line(steps, _numbers(event["scores"][name] for event in evaluations))


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
