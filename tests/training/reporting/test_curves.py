"""Curves: drawings that a browser can show, with every point in them."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from regard.training.reporting.curves import curves

SVG = "{http://www.w3.org/2000/svg}"
COLOUR = re.compile("stroke: #(1f77b4|ff7f0e)")  # of the first two curves


def steps(losses: list[float | None]) -> list[dict[str, Any]]:
    return [{"step": n, "loss": loss} for n, loss in enumerate(losses, start=1)]


def looks(**scores: list[float | None]) -> list[dict[str, Any]]:
    rows = zip(*scores.values(), strict=True)
    return [
        {"step": 10 * n, "scores": dict(zip(scores, row, strict=True))}
        for n, row in enumerate(rows, start=1)
    ]


def lines(drawing: str) -> list[int]:
    """How many points each curve has."""
    root = ElementTree.fromstring(drawing)
    assert root.tag == f"{SVG}svg"
    return [
        len(re.findall("[ML]", path.get("d", "")))
        for path in root.iter(f"{SVG}path")
        if path.get("clip-path") and COLOUR.search(path.get("style", ""))
    ]


def markers(drawing: str) -> int:
    root = ElementTree.fromstring(drawing)
    return sum(
        len(group.findall(f".//{SVG}use"))
        for group in root.iter(f"{SVG}g")
        if group.get("clip-path")
    )


def test_a_drawing_for_the_loss_and_one_for_each_score() -> None:
    drawn = curves(steps([4.0, 3.0, 2.5, 1.0] * 20) + looks(loss=[3.0, 2.0], bleu=[1.0, 9.0]))
    assert sorted(drawn) == ["bleu", "loss"]
    assert lines(drawn["loss"]) == [80, 2]
    assert markers(drawn["loss"]) == 2
    assert lines(drawn["bleu"]) == [2]
    assert markers(drawn["bleu"]) == 2
    assert ">loss per token<" in drawn["loss"]
    assert ">training<" in drawn["loss"]
    assert ">dev<" in drawn["loss"]


def test_nothing_happened_nothing_is_drawn() -> None:
    assert curves([]) == {}
    assert sorted(curves(steps([1.0, 2.0]))) == ["loss"]
    assert sorted(curves(looks(accuracy=[0.5]))) == ["accuracy"]


def test_the_same_run_is_drawn_the_same() -> None:
    events = steps([3.0, 2.0]) + looks(loss=[1.0])
    assert curves(events) == curves(events)


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_what_is_not_finite_leaves_no_hole_in_the_smoothed_loss(missing: float | None) -> None:
    drawn = curves(steps([missing, 2.0, 3.0, missing, 2.0]) + looks(loss=[missing, 1.0]))
    assert lines(drawn["loss"])[0] == 4
    assert "nan" not in drawn["loss"].lower()
