"""Verdicts on long distances from constructed evidence, and parts of the experiment."""

from typing import Any

import pytest
import torch

from regard.lab import tasks
from regard.lab.claims.long_distance import ARMS, Spec, far_over_near
from regard.lab.sizing import sized

ACCURACY: dict[str, float] = {"recurrent": 0.2, "convolutional": 0.12, "attention": 0.97}
GRADIENT: dict[str, float] = {"recurrent": 0.0, "convolutional": 0.0, "attention": 0.7}


def evidence_of(
    far: dict[str, float], gradient: dict[str, float], near: float = 0.99
) -> dict[str, Any]:
    """Return evidence with these accuracies at the longest distance, and these gradient ratios."""
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "distance": distance,
            "rate": 0.01,
            "losses": [2.0, 1.0],
            "accuracy": (far[arm] if distance == max(Spec().distances) else near) + 0.001 * seed,
            "gradient_before": gradient[arm] * (1 + 0.01 * seed),
            "gradient_after": 1.0,
        }
        for arm in ARMS
        for seed in range(3)
        for distance in Spec().distances
    ]
    return {"parameters": dict.fromkeys(ARMS, 1000), "runs": rows}


CLAIM, SUPPORTED = Spec(), evidence_of(ACCURACY, GRADIENT)
FAILING = {
    "recurrent_near": evidence_of(ACCURACY, GRADIENT, near=0.3),
    "recurrent_far": evidence_of({**ACCURACY, "recurrent": 0.95}, GRADIENT),
    "attention_far": evidence_of({**ACCURACY, "attention": 0.5}, GRADIENT),
    "recurrent_gradient": evidence_of(ACCURACY, {**GRADIENT, "recurrent": 0.5}),
    "attention_gradient": evidence_of(ACCURACY, {**GRADIENT, "attention": 0.0}),
}


def test_symbol_is_the_answer_at_its_distance() -> None:
    ids, is_target = tasks.recall(7, 8, 0, 0, rows=50)
    assert ids.shape == (50, 9)
    assert torch.equal(ids[:, 0], ids[:, -1])  # the answer
    assert (ids[:, 7] == 0).all()  # the cue, 7 after the symbol
    assert (ids[:, 1:7] == 1).all()  # blanks between
    assert set(ids[:, 0].tolist()) == set(range(2, 10))
    assert is_target.sum(1).eq(1).all()
    assert is_target[:, -1].all()


@pytest.mark.parametrize("distance", [10, 16, 17, 30])
def test_gradient_beyond_the_reach_of_convolutions_is_zero(distance: int) -> None:
    arm = ARMS["convolutional"]
    model = sized({**arm.settings, "dropout": 0.0}, 5_100, 10).build(10).eval()
    gradient = far_over_near(model, tasks.recall(distance, 8, 0, rows=4))
    assert (gradient > 0) == (distance <= 16)
