"""Verdicts on order from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.attention.soft_lookup import self_attention
from regard.lab.claim import judge
from regard.lab.claims.order import KINDS, Spec, _relative_difference


def evidence_of(blind: float = 0.5, difference: float = 1e-7, worse: float = 1.0) -> dict[str, Any]:
    seeds = (0.0, 0.001, -0.001)
    differences = [
        {"bare": difference * (1 + e), **dict.fromkeys(KINDS, 0.1 + e), "none": difference}
        for e in seeds
    ]
    first = {kind: [{"1": 0.99 + e, "2": 0.7, "4": 0.6} for e in seeds] for kind in KINDS}
    first["none"] = [{"1": blind + e, "2": blind, "4": blind} for e in seeds]
    text = {kind: [{"1": 2.0, "2": 2.0, "4": 2.0 + worse + e} for e in seeds] for kind in KINDS}
    return {"permuted": differences, "first": first, "text": text}


def test_supported_where_attention_is_blind_and_positions_do_not_extrapolate() -> None:
    assert judge(Spec, Spec().weigh(evidence_of()))[1] == "supported"


def test_not_supported_where_order_is_learned_without_positions() -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence_of(blind=0.9)))
    assert (outcomes["blind"], verdict) == ("fails", "not supported here")


def test_not_supported_where_attention_is_not_equivariant() -> None:
    outcomes = judge(Spec, Spec().weigh(evidence_of(difference=0.2)))[0]
    assert (outcomes["bare"], outcomes["encoder"]) == ("fails", "fails")


def test_not_supported_where_sinusoids_extrapolate() -> None:
    outcomes = judge(Spec, Spec().weigh(evidence_of(worse=0.0)))[0]
    assert (outcomes["sinusoids_end"], outcomes["learned_end"]) == ("fails", "fails")


def test_relative_difference_detects_order() -> None:
    x, order = torch.randn(1, 6, 4), torch.tensor([5, 0, 1, 2, 3, 4])
    assert _relative_difference(self_attention, x, order) < 1e-5
    assert _relative_difference(lambda x: x.cumsum(1), x, order) > 0.1
