"""Verdicts on interaction distance from constructed evidence, and parts of the experiment."""

from typing import Any

from regard.lab import claim_named
from regard.lab.claims.interaction import Spec
from regard.models.base import ModelSpec

CLAIM = Spec.model_validate({"windows": [3, 5], "layers": [1, 2, 4], "length": 64})


def evidence_of(extra: int = 0, attention: int = 63, skipped: int = 0) -> dict[str, Any]:
    stacks = []
    for seed in range(2):
        for window in CLAIM.windows:
            for layers in CLAIM.layers:
                distance = layers * (window - 1) + extra
                row = {"distance": distance, "tokens": distance - skipped}
                stacks.append({"seed": seed, "window": window, "layers": layers, **row})
    attention_rows = [
        {"seed": seed, "distance": attention, "tokens": attention} for seed in range(2)
    ]
    return {"windows": stacks, "attention": attention_rows}


SUPPORTED = evidence_of()
FAILING = {
    "windows": evidence_of(extra=1),
    "attention": evidence_of(attention=40),
    "filled": evidence_of(skipped=1),
    "depth": evidence_of(extra=62),
}


def test_layers_needed_are_the_fewest_that_span_the_text() -> None:
    assert CLAIM.weigh(evidence_of())["depth"].mean == 5
    assert CLAIM.weigh(evidence_of(extra=55))["depth"].mean == 4


def test_measured_reach_is_that_of_the_model() -> None:
    claim = claim_named("interaction", {"length": 40})
    assert isinstance(claim, Spec)
    settings = {"kind": "convolutional", "capability": "causal-lm", "layers": 3, "window": 4}
    reach = ModelSpec.model_validate(settings).reach  # type: ignore[attr-defined]
    assert claim._reach("convolutional", 3, seed=0, window=4) == {
        "distance": reach,
        "tokens": reach,
    }
