"""Curves of a training run as SVG: the loss over steps, and the dev scores."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.evaluation.base import metric_named
from regard.plotting import figure_of

Line = tuple[Sequence[float], Sequence[float]]  # where, and what

SMOOTHING = 0.95  # of the loss drawn: one batch is noise


def curves(events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """SVG by name: loss, and one for each dev score."""
    steps = [each for each in events if "loss" in each]
    looks = [each for each in events if "scores" in each]
    drawn = {}
    if steps:
        at = [each["step"] for each in steps]
        lines: dict[str, Line] = {
            "training": (at, _smooth(_numbers(each["loss"] for each in steps)))
        }
        if looks and "loss" in looks[0]["scores"]:
            lines["dev"] = _scores(looks, "loss")
        drawn["loss"] = draw(lines, "step", "loss per token", pointed={"dev"})
    for name in looks[0]["scores"] if looks else ():
        if name != "loss":
            drawn[name] = draw(
                {"dev": _scores(looks, name)}, "step", metric_named(name).label, pointed={"dev"}
            )
    return drawn


def _scores(looks: Sequence[Mapping[str, Any]], name: str) -> Line:
    return [each["step"] for each in looks], _numbers(each["scores"][name] for each in looks)


def _numbers(values: Iterable[float | None]) -> list[float]:
    """Null is what is not finite."""
    return [float("nan") if value is None else value for value in values]


def _smooth(values: Sequence[float]) -> list[float]:
    smoothed, weight, running = [], 0.0, 0.0
    for value in values:
        if np.isfinite(value):
            running = SMOOTHING * running + (1 - SMOOTHING) * value
            weight = SMOOTHING * weight + 1 - SMOOTHING
        smoothed.append(running / weight if weight else float("nan"))
    return smoothed


def draw(lines: Mapping[str, Line], across: str, up: str, pointed: Collection[str] = ()) -> str:
    """Lines by name as SVG, the axes labelled; of some, each point is marked."""
    with figure_of(6, 3.6) as (figure, save):
        axes = figure.add_subplot()
        for name, (x, y) in lines.items():
            axes.plot(x, y, label=name, marker="o" if name in pointed else None, markersize=3)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            axes.legend(frameon=False)
        return save()
