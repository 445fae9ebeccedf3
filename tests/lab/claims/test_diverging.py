"""Verdicts on diverging heads from constructed evidence, and parts of the experiment."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from regard.lab.claim import judge
from regard.lab.claims.diverging import Spec, _copy_first_head, _similarity
from regard.models.base import ModelSpec

FLATTENING = {1: 1.5, 2: 1.4, 4: 1.3, 8: 1.3, 16: 1.31}


def evidence_of(losses: Mapping[int, float] = FLATTENING, bits: float = 0.4) -> dict[str, Any]:
    trained = [
        {"seed": seed, "heads": heads, "copies": False, "loss": loss + seed / 1000}
        | {"before": {"bits": 0.01, "cosine": 0.95}}
        | {"after": {"bits": bits + seed / 1000, "cosine": 0.95 - bits}}
        for seed in range(3)
        for heads, loss in losses.items()
    ]
    return {"trained": [*trained, {**trained[2], "copies": True}]}


def test_supported_where_heads_diverge_and_more_do_not_help() -> None:
    assert judge(Spec, Spec().weigh(evidence_of()))[1] == "supported"
    assert len(Spec().show(evidence_of())[0].rows) == 6  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("criterion", "evidence"),
    [
        ("divergence", evidence_of(bits=0.0)),
        ("cosine", evidence_of(bits=0.0)),
        ("helps", evidence_of({1: 1.2, 2: 1.3, 4: 1.3, 8: 1.3, 16: 1.3})),
        ("stops", evidence_of({1: 1.5, 2: 1.4, 4: 1.3, 8: 1.2, 16: 1.1})),
    ],
)
def test_not_supported_where_heads_stay_equal_or_more_help(
    criterion: str, evidence: dict[str, Any]
) -> None:
    outcomes, verdict = judge(Spec, Spec().weigh(evidence))
    assert (outcomes[criterion], verdict) == ("fails", "not supported here")


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
