"""Verdicts on masking from constructed evidence, and parts of the experiment."""

from typing import Any

import torch

from regard.lab.claims.masking import (
    _PASSES,
    AT_ONCE,
    CACHED,
    PREFIXES,
    Spec,
    _attend_to_all,
    _changed,
    _Pass,
)
from regard.models.base import ModelSpec
from regard.models.language_model import LanguageModel


def evidence_of(
    unmasked: float = 0.1,
    loss: float = 5.0,
    slower: float = 8.0,
    changed: float = 0.0,
    exist: float = 0.3,
    difference: float = 1e-6,
) -> dict[str, Any]:
    seeds = (0.0, 0.001, -0.001)

    def runs(end: float, loss: float, exist: float) -> list[dict[str, Any]]:
        return [
            {"curve": [6.0, end + e], "loss": loss + e, "exist": exist - e, "changed": changed}
            for e in seeds
        ]

    seconds = {AT_ONCE: [0.1, 0.11, 0.1], PREFIXES: [0.1 * slower] * 3, CACHED: [0.1 * slower] * 3}
    return {
        "seeds": {"masked": runs(2.0, 3.0, 0.8), "unmasked": runs(unmasked, loss, exist)},
        "seconds": seconds,
        "differences": {AT_ONCE: 0.0, PREFIXES: difference, CACHED: 1e-6},
    }


CLAIM, SUPPORTED = Spec(), evidence_of()
FAILING = {
    "unseen": evidence_of(changed=0.1),
    "collapses": evidence_of(unmasked=2.0),
    "predicts": evidence_of(loss=2.5),
    "writes": evidence_of(exist=0.999),
    "same": evidence_of(difference=0.1),
    "faster": evidence_of(slower=1.0),
    "faster_than_cached": evidence_of(slower=1.0),
}


def small() -> tuple[LanguageModel, torch.Tensor]:
    torch.manual_seed(0)
    settings = {"dim": 8, "heads": 2, "ffn_dim": 16, "layers": 2, "dropout": 0.0}
    model = ModelSpec.model_validate({"kind": "language-model", **settings}).build(11)
    assert isinstance(model, LanguageModel)
    return model, torch.randint(11, (3, 6))


def test_earlier_outputs_depend_on_the_last_token_only_without_the_mask() -> None:
    model, page = small()
    with _attend_to_all(model, unmasked=True):
        assert _changed(model, page) > 1e-3
    assert _changed(model, page) == 0.0


def test_all_methods_give_the_same_gradient() -> None:
    model, page = small()
    one_pass, *others = (_Pass(model, page, method)() for method in _PASSES)
    for other in others:
        torch.testing.assert_close(other, one_pass, rtol=1e-4, atol=1e-6)
