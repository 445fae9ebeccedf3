"""Verdicts on depth from constructed evidence, and parts of the experiment."""

from typing import Any

import pytest
import torch

from regard.lab.claims.depth import (
    POINTS,
    VARIANTS,
    Spec,
    direction,
    jaggedness,
    roughness,
    without,
)
from regard.models.base import ModelSpec
from regard.models.language_model import LanguageModel


def evidence_of(bare: float = 5.0, both: float = 3.0, rough: float = 2.0) -> dict[str, Any]:
    claim = Spec()
    runs, surfaces = [], []
    for seed in range(3):
        for variant in VARIANTS:
            for depth in claim.depths:
                last_loss = (both if variant == "both" else bare) if depth > 2 else 3.0
                # The last rate has a higher loss: the best rate counts.
                for rate in claim.rates:
                    end = last_loss + 0.001 * seed + (3.0 if rate == claim.rates[-1] else 0.0)
                    run = {"seed": seed, "variant": variant, "depth": depth, "rate": rate}
                    runs.append({**run, "curve": [6.0, end]})
                    if depth == claim.surface_depth:
                        height = (0.1 if variant == "both" else 0.1 * rough) * (1 + 0.01 * seed)
                        surfaces.append(
                            {**run, "losses": [[height * (index % 2) for index in range(POINTS)]]}
                        )
    return {"runs": runs, "surfaces": surfaces}


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "deep": evidence_of(both=4.0),
    "residuals": evidence_of(bare=3.0),
    "norms": evidence_of(bare=2.5),
    "smoother": evidence_of(rough=0.5),
}


def test_the_learning_rate_is_selected_by_the_other_seeds() -> None:
    """A rate that is best with one seed only does not count for that seed."""
    evidence, depth = evidence_of(), max(CLAIM.depths)
    for run in evidence["runs"]:
        if (run["seed"], run["depth"], run["rate"]) == (0, depth, CLAIM.rates[-1]):
            run["curve"] = [6.0, 0.0]
    assert CLAIM._losses(evidence, "both", depth)[0] == 3.0


@pytest.mark.parametrize("variant", VARIANTS)
def test_residuals_and_norms_are_removed(variant: str) -> None:
    """With zero sublayer outputs, only residual connections pass the input on."""
    residuals, norms = VARIANTS[variant]
    torch.manual_seed(0)
    settings = {"dim": 8, "heads": 2, "ffn_dim": 16, "layers": 2, "dropout": 0.0}
    model = ModelSpec.model_validate({"kind": "language-model", **settings}).build(11)
    assert isinstance(model, LanguageModel)
    without(model, residuals, norms)
    for name, parameter in model.named_parameters():
        if "w_o" in name or "down_proj" in name:
            parameter.data.zero_()
    ids = torch.randint(11, (1, 5))
    expected = model.decoder.norm(model.decoder.embedding(ids)) if residuals else torch.zeros(1)
    assert torch.allclose(model.states(ids), expected)
    assert any("residual" in name for name, _ in model.named_parameters()) is norms


def test_directions_have_the_norms_of_the_filters() -> None:
    weights = [torch.randn(3, 4), torch.randn(3)]
    matrix, bias = direction(weights, 0)
    torch.testing.assert_close(matrix.norm(dim=1), weights[0].norm(dim=1))
    assert bias.abs().max() == 0.0


def test_height_a_straight_line_is_zero() -> None:
    assert roughness([[1.0, 2.0, 3.0, 4.0]]) == 0.0
    assert roughness([[0.0, 1.0, 0.0]]) == 2.0
    assert jaggedness([[0.0, 1.0, 0.0]]) == jaggedness([[0.0, 3.0, 0.0]]) == 2.0
