"""Verdicts on sequential recurrence from constructed evidence, and parts of the experiment."""

from collections.abc import Mapping
from typing import Any

import torch

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


def by_arm(recurrent: float, attentive: float) -> dict[str, float]:
    return {"recurrence": recurrent, "attention": attentive}


CHAINS, FALLS = by_arm(8, 0), by_arm(-0.05, -0.6)
CLAIM, SUPPORTED = Spec(), evidence_of(CHAINS, FALLS)
FAILING = {
    "recurrent_chain": evidence_of(by_arm(0, 0), FALLS),
    "attentive_chain": evidence_of(by_arm(8, 1), FALLS),
    "recurrent_time": evidence_of(CHAINS, by_arm(-0.5, -0.9)),
    "gained": evidence_of(CHAINS, by_arm(-0.1, 0.2)),
    "slower": evidence_of(CHAINS, by_arm(-0.1, 0.2)),
}


def test_longest_chain_of_operations() -> None:
    x = torch.ones(2, requires_grad=True)
    assert longest_chain(x.exp()) == 1
    assert longest_chain(x.exp().sin() * x) == 3  # the shorter path does not count
    assert longest_chain((x.exp() + x.sin()).sum()) == 3
    long = x
    for _ in range(3000):  # beyond Python's recursion limit
        long = long + x
    assert longest_chain(long) == 3000
