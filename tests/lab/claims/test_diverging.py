"""Verdicts on diverging heads from constructed evidence, and parts of the experiment."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from regard.lab.claims.diverging import SELECTION_SEEDS, Spec, _copy_first_head, _similarity
from regard.models.base import ModelSpec

FLATTENING = {1: 1.5, 2: 1.4, 4: 1.3, 8: 1.3, 16: 1.31}


def evidence_of(losses: Mapping[int, float] = FLATTENING, bits: float = 0.4) -> dict[str, Any]:
    trained = [
        {"seed": seed, "heads": heads, "copies": False, "loss": loss + seed / 1000}
        | {"before": {"bits": 0.01, "cosine": 0.95}}
        | {"after": {"bits": bits + seed / 1000, "cosine": 0.95 - bits}}
        for seed in range(6)
        for heads, loss in losses.items()
    ]
    return {"trained": [*trained, {**trained[2], "copies": True}]}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "divergence": evidence_of(bits=0.0),
    "cosine": evidence_of(bits=0.0),
    "helps": evidence_of({1: 1.2, 2: 1.3, 4: 1.3, 8: 1.3, 16: 1.3}),
    "stops": evidence_of({1: 1.5, 2: 1.4, 4: 1.3, 8: 1.2, 16: 1.1}),
}


def test_every_number_of_heads_is_shown() -> None:
    assert len(CLAIM.show(SUPPORTED)[0].rows) == 6  # type: ignore[union-attr]


def test_the_number_of_heads_is_selected_and_judged_on_different_seeds() -> None:
    """A number that is best by chance with the first seeds gains nothing by it."""
    evidence = evidence_of({1: 1.5, 2: 1.4, 4: 1.3, 8: 1.3, 16: 1.1})
    for run in evidence["trained"]:
        if run["seed"] < SELECTION_SEEDS and run["heads"] == 2:
            run["loss"] = 0.5
    assert CLAIM.weigh(evidence)["stops"].mean == pytest.approx(0.3)
    assert CLAIM.model_copy(update={"seeds": SELECTION_SEEDS}).repetitions(evidence) == 0


def test_copied_heads_are_equal_and_random_heads_are_not() -> None:
    torch.manual_seed(0)
    settings = {"kind": "language-model", "heads": 4, "dim": 32, "layers": 2, "dropout": 0.0}
    model = ModelSpec.model_validate(settings).build(20)
    ids = torch.randint(2, 20, (6, 12))
    different = _similarity(model, ids)
    assert different["bits"] > 1e-4
    assert different["cosine"] < 0.9999
    _copy_first_head(model)
    equal = _similarity(model, ids)
    assert equal["bits"] == pytest.approx(0, abs=1e-6)
    assert equal["cosine"] == pytest.approx(1, abs=1e-5)
