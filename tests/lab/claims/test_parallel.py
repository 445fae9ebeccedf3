"""Verdicts on sequential recurrence from constructed evidence, and parts of the experiment."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from regard.lab.claim import judge
from regard.lab.claims.parallel import ARMS, Spec, longest_chain


def evidence_of(chains: Mapping[str, float], falls: Mapping[str, float]) -> dict[str, Any]:
    """Return evidence with these chain lengths per token and exponents of the time per token."""
    rows = [
        {
            "seed": seed,
            "arm": arm,
            "length": length,
            "chain": 20 + chains[arm] * length,
            "seconds": [(1 + 0.01 * turn) * length ** (1 + falls[arm]) for turn in range(5)],
        }
        for seed in range(2)
        for arm in ARMS
        for length in Spec().lengths
    ]
    return {"parameters": dict.fromkeys(ARMS, 1000), "passes": rows}


def test_supported_where_only_recurrence_is_sequential() -> None:
    chains, falls = {"recurrence": 8, "attention": 0}, {"recurrence": -0.05, "attention": -0.6}
    assert judge(Spec, Spec().weigh(evidence_of(chains, falls)))[1] == "supported"


@pytest.mark.parametrize(
    ("chains", "falls", "failing"),
    [
        ((8, 1), (-0.05, -0.6), {"attentive_chain"}),
        ((0, 0), (-0.05, -0.6), {"recurrent_chain"}),
        ((8, 0), (-0.5, -0.9), {"recurrent_time"}),
        ((8, 0), (-0.1, 0.2), {"gained", "slower"}),
    ],
)
def test_not_supported_where_one_criterion_fails(
    chains: tuple[float, ...], falls: tuple[float, ...], failing: set[str]
) -> None:
    evidence = evidence_of(*(dict(zip(ARMS, values, strict=True)) for values in (chains, falls)))
    outcomes, verdict = judge(Spec, Spec().weigh(evidence))
    assert {name for name, outcome in outcomes.items() if outcome == "fails"} == failing
    assert verdict == "not supported here"


def test_longest_chain_of_operations() -> None:
    x = torch.ones(2, requires_grad=True)
    assert longest_chain(x.exp()) == 1
    assert longest_chain(x.exp().sin() * x) == 3  # the shorter path does not count
    assert longest_chain((x.exp() + x.sin()).sum()) == 3
    long = x
    for _ in range(3000):  # beyond Python's recursion limit
        long = long + x
    assert longest_chain(long) == 3000
