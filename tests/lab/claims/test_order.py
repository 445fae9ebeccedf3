"""Verdicts on order from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.attention.soft_lookup import self_attention
from regard.lab.claims.order import KINDS, Spec, _relative_difference


def evidence_of(
    difference: float = 1e-7,
    with_positions: float = 0.1,
    accuracy: float = 0.99,
    worse: float = 1.0,
) -> dict[str, Any]:
    seeds = (0.0, 0.001, -0.001)
    differences = [
        {
            "bare": difference * (1 + e),
            **dict.fromkeys(KINDS, with_positions * (1 + e)),
            "none": difference,
        }
        for e in seeds
    ]
    first = {kind: [{"1": accuracy + e, "2": 0.7, "4": 0.6} for e in seeds] for kind in KINDS}
    first["none"] = [{"1": 0.5 + e, "2": 0.5, "4": 0.5} for e in seeds]
    text = {kind: [{"1": 2.0, "2": 2.0, "4": 2.0 + worse + e} for e in seeds] for kind in KINDS}
    return {"permuted": differences, "first": first, "text": text}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "bare": evidence_of(difference=0.2),
    "encoder": evidence_of(difference=0.2),
    "positions": evidence_of(with_positions=1e-4),
    "sinusoids": evidence_of(accuracy=0.6),
    "learned": evidence_of(accuracy=0.6),
    "sinusoids_end": evidence_of(worse=0.0),
    "learned_end": evidence_of(worse=0.0),
}


def test_relative_difference_detects_order() -> None:
    x, order = torch.randn(1, 6, 4), torch.tensor([5, 0, 1, 2, 3, 4])
    assert _relative_difference(self_attention, x, order) < 1e-5
    assert _relative_difference(lambda x: x.cumsum(1), x, order) > 0.1
