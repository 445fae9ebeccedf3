"""Verdicts on averaging from given evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab.claim import judge
from regard.lab.claims.averaging import ARMS, BITS, STACKS, Spec, _Bits
from regard.models.base import parameter_count


def evidence_of(right: float = 0.5, spread: float = 1e-6, apart: float = 1e-9) -> dict[str, Any]:
    seeds = (0.0, 0.001, -0.001)

    def rows(outside: float) -> list[dict[str, float]]:
        return [
            {"depth": d, "apart": apart, "unsummed": 0.0, "outside": outside, "spread": spread}
            for d in Spec().depths
        ]

    stacks = [{name: rows(0.0 if name == STACKS[0] else 0.2 + e) for name in STACKS} for e in seeds]
    arms = dict(zip(ARMS, (right, 0.99, 0.99), strict=True))
    return {
        "stacks": stacks,
        "right": {arm: [value + e for e in seeds] for arm, value in arms.items()},
        "parameters": dict.fromkeys(ARMS, 1000),
    }


def test_supported_where_tokens_collapse_and_xor_is_not_learned() -> None:
    assert judge(Spec, Spec().weigh(evidence_of()))[1] == "supported"


def test_not_supported_where_attention_alone_learns_xor() -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence_of(right=0.97)))
    assert (outcomes["unable"], verdict) == ("fails", "not supported here")


def test_not_supported_where_tokens_do_not_collapse_or_output_is_no_average() -> None:
    outcomes = judge(Spec, Spec().weigh(evidence_of(spread=0.7, apart=0.3)))[0]
    assert (outcomes["collapse"], outcomes["average"]) == ("fails", "fails")


def test_models_have_equal_sizes() -> None:
    counts = [parameter_count(_Bits(Spec().dim, *arm)) for arm in ARMS.values()]
    assert max(counts) < 1.05 * min(counts)


def test_attention_by_positions_is_linear_in_the_values() -> None:
    """Answers to 00 and 11 add up to those to 01 and 10, which no sum tells apart."""
    torch.manual_seed(0)
    rows = torch.zeros(4, BITS, dtype=torch.long)
    rows[:, :2] = torch.tensor([[0, 0], [1, 1], [0, 1], [1, 0]])

    def apart(arm: str) -> float:
        said = _Bits(32, *ARMS[arm])(rows).detach()
        return float((said[:2].sum(0) - said[2:].sum(0)).abs().max())

    plain, fed, by_words = (apart(arm) for arm in ARMS)
    assert plain < 1e-5
    assert min(fed, by_words) > 1e-4
