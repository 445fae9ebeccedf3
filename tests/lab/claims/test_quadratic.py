"""Verdicts on cost by length from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab.claims.quadratic import METHODS, Spec, saved_bytes


def evidence_of(times: tuple[float, ...], memories: tuple[float, ...]) -> dict[str, Any]:
    """Return costs that grow with these exponents, one for each method."""
    rows = [
        {
            "seed": seed,
            "method": method,
            "length": length,
            "bytes": round(1000 * length**memory),
            "seconds": [(1 + 0.01 * index) * length**time for index in range(5)],
        }
        for seed in range(2)
        for method, time, memory in zip(METHODS, times, memories, strict=True)
        for length in Spec().lengths
    ]
    return {"passes": rows}


CLAIM, SUPPORTED = Spec(), evidence_of((1.9, 2.05, 1.0), (2, 1, 1))
FAILING = {
    "reference_time": evidence_of((1.1, 2, 1), (2, 1, 1)),
    "fused_time": evidence_of((2, 1.1, 1), (2, 1, 1)),
    "recurrent_time": evidence_of((2, 2, 2), (2, 1, 1)),
    "reference_memory": evidence_of((2, 2, 1), (1, 1, 1)),
    "recurrent_memory": evidence_of((2, 2, 1), (2, 1, 2)),
}


def test_saved_storages_are_counted_once_without_inputs() -> None:
    x = torch.ones(100, requires_grad=True)
    assert saved_bytes(lambda: x * x, []) == 400
    assert saved_bytes(lambda: x * x, [x]) == 0
    assert saved_bytes(lambda: x.exp(), [x]) == 400
    assert saved_bytes(lambda: x.exp().sin().exp(), [x]) == 800
    assert saved_bytes(lambda: x.exp() * x.view(10, 10).view(100), [x]) == 400
    assert saved_bytes(lambda: x + x, []) == 0
