"""Verdicts on averaging from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab.claims.averaging import ARMS, BITS, STACKS, Spec, _Bits
from regard.models.base import parameter_count


def evidence_of(
    spread: float = 1e-6,
    difference: float = 1e-9,
    outside: float = 0.0,
    outside_fed: float = 0.2,
    fed: float = 0.99,
) -> dict[str, Any]:
    seeds = (0.0, 0.001, -0.001)

    def rows(outside: float) -> list[dict[str, float]]:
        return [
            {
                "depth": d,
                "difference": difference,
                "row_sum_error": 0.0,
                "outside": outside,
                "spread": spread,
            }
            for d in Spec().depths
        ]

    stacks = [
        {name: rows(outside if name == STACKS[0] else outside_fed * (1 + e)) for name in STACKS}
        for e in seeds
    ]
    arms = dict(zip(ARMS, (0.5, fed, 0.99), strict=True))
    return {
        "stacks": stacks,
        "accuracy": {arm: [value + e for e in seeds] for arm, value in arms.items()},
        "parameters": dict.fromkeys(ARMS, 1000),
    }


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "average": evidence_of(difference=0.3),
    "rank": evidence_of(outside=0.1),
    "rank_with_feed_forward": evidence_of(outside_fed=0.001),
    "collapse": evidence_of(spread=0.7),
    "xor_feed_forward": evidence_of(fed=0.5),
}


def test_models_have_equal_sizes() -> None:
    counts = [parameter_count(_Bits(Spec().dim, *arm)) for arm in ARMS.values()]
    assert max(counts) < 1.05 * min(counts)


def test_attention_by_positions_is_linear_in_the_values() -> None:
    """The logits of 00 and 11 add up to those of 01 and 10, so no linear map computes XOR."""
    torch.manual_seed(0)
    rows = torch.zeros(4, BITS, dtype=torch.long)
    rows[:, :2] = torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0]])

    def difference(arm: str) -> float:
        logits = _Bits(32, *ARMS[arm])(rows).detach()
        return float((logits[:2].sum(0) - logits[2:].sum(0)).abs().max())

    plain, fed, by_tokens = (difference(arm) for arm in ARMS)
    assert plain < 1e-5
    assert min(fed, by_tokens) > 1e-4
