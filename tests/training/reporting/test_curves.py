"""Curves as SVG figures that contain every point."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.training.reporting.curves import curves

SVG = "{http://www.w3.org/2000/svg}"
COLOR = re.compile("stroke: #(1f77b4|ff7f0e)")  # colors of the first two curves


@pytest.fixture(scope="module", autouse=True)
def placeholder_figures() -> None:
    """Draw the figures, unlike the other tests of training."""


def steps(losses: list[float | None]) -> list[dict[str, Any]]:
    return [{"step": n, "loss": loss} for n, loss in enumerate(losses, start=1)]


def evaluations(**scores: list[float | None]) -> list[dict[str, Any]]:
    rows = zip(*scores.values(), strict=True)
    return [
        {"step": 10 * n, "scores": dict(zip(scores, row, strict=True))}
        for n, row in enumerate(rows, start=1)
    ]


def points_per_curve(svg: str) -> list[int]:
    """Return the number of points of each curve."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return [
        len(re.findall("[ML]", path.get("d", "")))
        for path in root.iter(f"{SVG}path")
        if path.get("clip-path") and COLOR.search(path.get("style", ""))
    ]


def markers(svg: str) -> int:
    root = ElementTree.fromstring(svg)
    return sum(
        len(group.findall(f".//{SVG}use"))
        for group in root.iter(f"{SVG}g")
        if group.get("clip-path")
    )


def test_loss_and_every_score_have_a_figure() -> None:
    figures = curves(
        steps([4.0, 3.0, 2.5, 1.0] * 20) + evaluations(loss=[3.0, 2.0], bleu=[1.0, 9.0])
    )
    assert sorted(figures) == ["bleu", "loss"]
    assert points_per_curve(figures["loss"]) == [80, 2]
    assert markers(figures["loss"]) == 2
    assert points_per_curve(figures["bleu"]) == [2]
    assert markers(figures["bleu"]) == 2
    assert ">loss per token<" in figures["loss"]
    assert ">training<" in figures["loss"]
    assert ">dev<" in figures["loss"]


def test_no_events_give_no_figures() -> None:
    assert curves([]) == {}
    assert sorted(curves(steps([1.0, 2.0]))) == ["loss"]
    assert sorted(curves(evaluations(accuracy=[0.5]))) == ["accuracy"]


def test_a_score_is_drawn_where_it_was_computed() -> None:
    """A resumed run may have added it; a damaged name is no metric, and no name of a file."""
    events = evaluations(bleu=[1.0, 2.0]) + evaluations(bleu=[3.0], macro_f1=[0.5])
    damaged = [{"step": 9, "scores": {"../$oss": 1.0}}, {"step": 9, "scores": None}]
    figures = curves([*events, *damaged])
    assert sorted(figures) == ["bleu", "macro_f1"]
    assert points_per_curve(figures["bleu"]) == [3]
    assert markers(figures["macro_f1"]) == 1


def test_figures_are_deterministic() -> None:
    events = steps([3.0, 2.0]) + evaluations(loss=[1.0])
    assert curves(events) == curves(events)


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_non_finite_losses_leave_no_gap_in_the_smoothed_loss(missing: float | None) -> None:
    figures = curves(steps([missing, 2.0, 3.0, missing, 2.0]) + evaluations(loss=[missing, 1.0]))
    assert points_per_curve(figures["loss"])[0] == 4
    assert "nan" not in figures["loss"].lower()
