"""Curves of a training run as SVG: the loss over steps, and the dev scores."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

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
        drawn["loss"] = _draw(lines, "loss per token")
    for name in looks[0]["scores"] if looks else ():
        if name != "loss":
            drawn[name] = _draw({"dev": _scores(looks, name)}, name)
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


def _draw(lines: Mapping[str, Line], label: str) -> str:
    # Figure and canvas without pyplot: no global state, no display, no fonts to look for.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "regard", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for name, (x, y) in lines.items():
            axes.plot(x, y, label=name, marker="o" if name == "dev" else None, markersize=3)
        axes.set_xlabel("step")
        axes.set_ylabel(label)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if len(lines) > 1:
            axes.legend(frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()
