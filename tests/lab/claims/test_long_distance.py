"""Verdicts on long distances from given evidence, and parts of the experiment."""

from typing import Any

import pytest
import torch

from regard.lab import tasks
from regard.lab.claim import judge
from regard.lab.claims.long_distance import ARMS, Spec, far_over_near
from regard.lab.sizing import sized

KNOWN: dict[str, float] = {"recurrent": 0.2, "windows": 0.12, "attention": 0.97}
LEFT: dict[str, float] = {"recurrent": 0.0, "windows": 0.0, "attention": 0.7}


def evidence_of(
    far: dict[str, float], left: dict[str, float], near: float = 0.99
) -> dict[str, Any]:
    """What each recalls at the longest distance (and nearer), what is left of its gradient."""
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "distance": distance,
            "rate": 0.01,
            "losses": [2.0, 1.0],
            "recalled": (far[arm] if distance == max(Spec().distances) else near) + 0.001 * seed,
            "gradient_before": left[arm] * (1 + 0.01 * seed),
            "gradient_after": 1.0,
        }
        for arm in ARMS
        for seed in range(3)
        for distance in Spec().distances
    ]
    return {"parameters": dict.fromkeys(ARMS, 1000), "learned": rows}


def test_supported_where_only_attention_is_accurate_at_long_distance() -> None:
    assert judge(Spec, Spec().weigh(evidence_of(KNOWN, LEFT)))[1] == "supported"


@pytest.mark.parametrize(
    ("evidence", "failing"),
    [
        (evidence_of({**KNOWN, "recurrent": 0.95}, LEFT), {"recurrent_far"}),
        (evidence_of({**KNOWN, "windows": 0.95}, LEFT), {"windows_far"}),
        (evidence_of({**KNOWN, "attention": 0.5}, LEFT), {"attention_far"}),
        (evidence_of(KNOWN, LEFT, near=0.3), {"recurrent_near"}),
        (evidence_of(KNOWN, {**LEFT, "recurrent": 0.5}), {"recurrent_gradient"}),
        (evidence_of(KNOWN, {**LEFT, "attention": 0.0}), {"attention_gradient"}),
    ],
)
def test_not_supported_where_one_criterion_fails(
    evidence: dict[str, Any], failing: set[str]
) -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence))
    assert {name for name, outcome in outcomes.items() if outcome == "fails"} == failing
    assert verdict == "not supported here"


def test_symbol_is_the_answer_at_its_distance() -> None:
    ids, asked = tasks.recall(7, 8, 0, 0, rows=50)
    assert ids.shape == (50, 9)
    assert torch.equal(ids[:, 0], ids[:, -1])  # what is asked for
    assert (ids[:, 7] == 0).all()  # the mark, 7 after the symbol
    assert (ids[:, 1:7] == 1).all()  # silence between
    assert set(ids[:, 0].tolist()) == set(range(2, 10))
    assert asked.sum(1).eq(1).all()
    assert asked[:, -1].all()


@pytest.mark.parametrize("distance", [10, 16, 17, 30])
def test_gradient_beyond_the_reach_of_convolutions_is_zero(distance: int) -> None:
    arm = ARMS["windows"]
    model = sized({**arm.settings, "dropout": 0.0}, 5_100, 10).build(10).eval()
    left = far_over_near(model, tasks.recall(distance, 8, 0, rows=4))
    assert (left > 0) == (distance <= 16)
