"""The verdict on how far words can meet follows from the evidence, both ways."""

from typing import Any

import pytest

from regard.lab import claim_named
from regard.lab.claim import judge
from regard.lab.claims.interaction import Spec
from regard.models.base import ModelSpec

CLAIM = Spec.model_validate({"windows": [3, 5], "layers": [1, 2, 4], "length": 64})


def planted(further: int = 0, attention: int = 63, unseen: int = 0) -> dict[str, Any]:
    stacks = []
    for seed in range(2):
        for window in CLAIM.windows:
            for layers in CLAIM.layers:
                distance = layers * (window - 1) + further
                row = {"distance": distance, "words": distance - unseen}
                stacks.append({"seed": seed, "window": window, "layers": layers, **row})
    seen = [{"seed": seed, "distance": attention, "words": attention} for seed in range(2)]
    return {"windows": stacks, "attention": seen}


def test_supported_where_windows_carry_over_what_they_should() -> None:
    assert judge(Spec, CLAIM.weigh(planted()))[1] == "supported"


@pytest.mark.parametrize(
    ("evidence", "which"),
    [
        (planted(further=1), "windows"),
        (planted(attention=40), "attention"),
        (planted(unseen=1), "filled"),
        (planted(further=62), "depth"),
    ],
)
def test_not_supported_where_something_is_otherwise(evidence: dict[str, Any], which: str) -> None:
    outcomes, verdict = judge(Spec, CLAIM.weigh(evidence))
    assert (outcomes[which], verdict) == ("fails", "not supported here")


def test_the_layers_needed_are_those_that_were_enough_or_more_than_were_tried() -> None:
    assert CLAIM.weigh(planted())["depth"].mean == 5
    assert CLAIM.weigh(planted(further=55))["depth"].mean == 4


def test_what_is_measured_is_what_the_model_says_of_itself() -> None:
    claim = claim_named("interaction", {"length": 40})
    assert isinstance(claim, Spec)
    given = {"kind": "convolutional", "capability": "causal-lm", "layers": 3, "window": 4}
    reach = ModelSpec.model_validate(given).reach  # type: ignore[attr-defined]
    assert claim._reached("convolutional", 3, seed=0, window=4) == {
        "distance": reach,
        "words": reach,
    }
