"""Verdicts on sequential decoding from constructed evidence, and parts of the experiment."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from regard.lab.claims.decoding import CACHES, Spec, _one_call_or_many
from regard.lab.decoding_strategies import MAX_TOKENS, Strategies
from regard.models.base import ModelSpec

SPEC = Spec(draft_lengths=(2, 4))


def evidence_of(
    parallel: int = 90,
    speculative: int = 40,
    time: float = 0.6,
    cached: float = 0.1,
    uncached: float = 1.1,
    logits: float = 1e-6,
    same: Sequence[bool] = (True,) * 80,
) -> dict[str, Any]:
    """Return evidence of 100 generated tokens and two rounds of timing."""
    runs = [
        {
            "parameters": [1000, 100],
            "tokens": 100,
            "calls": 100,
            "parallel_calls": parallel + seed,
            "speculative": {
                "2": {"calls": speculative + seed, "drafted": 90, "same": same},
                "4": {"calls": 95 + seed, "drafted": 200, "same": [True] * 80},
            },
            "logit_difference": logits * (1 + 0.1 * seed),
            "seconds": {"autoregressive": [1.0, 1.01], "2": [time, time + 0.01], "4": [3.0, 3.1]},
            "example": "",
        }
        for seed in range(3)
    ]
    powers = dict(zip(CACHES, (uncached, cached), strict=True))
    times = {
        cache: [[1e-5 * n ** (power + 0.01 * r) for r in range(3)] for n in Spec().lengths]
        for cache, power in powers.items()
    }
    return {"times": times, "runs": runs}


CLAIM, SUPPORTED = SPEC, evidence_of()
FAILING = {
    "prefill": evidence_of(logits=0.1),
    "parallel": evidence_of(parallel=10),
    "uncached": evidence_of(uncached=0.3),
    "cached": evidence_of(cached=1.0),
    "same": evidence_of(same=[True, False] * 40),
    "fewer": evidence_of(speculative=95),
    "wins": evidence_of(time=1.5),
}


def test_the_draft_length_is_selected_by_the_other_seeds() -> None:
    """With the first seed, another draft length is the fastest; it is not used for it."""
    evidence = evidence_of()
    evidence["runs"][0]["seconds"]["4"] = [0.1, 0.1]
    assert SPEC._selected(evidence["runs"]) == ["2", "2", "2"]
    evidence["runs"][1]["seconds"]["4"] = [0.01, 0.01]
    assert SPEC._selected(evidence["runs"])[2] == "4"


def models() -> list[Any]:
    torch.manual_seed(0)
    settings = {
        "kind": "language-model",
        "heads": 2,
        "ffn_dim": 32,
        "max_length": 64,
        "dropout": 0.0,
    }
    sizes = ({"dim": 32, "layers": 2}, {"dim": 16, "layers": 1})
    return [ModelSpec.model_validate({**settings, **size}).build(12).eval() for size in sizes]


@pytest.mark.parametrize("prompt", [[1, 2], [1, 5, 7], [3, 3, 3, 9]])
def test_all_strategies_have_the_same_output(prompt: list[int]) -> None:
    large, small = models()
    strategies = Strategies(large, small, end=0)
    autoregressive, speculative = (
        strategies.autoregressive(prompt),
        strategies.speculative(prompt, 3),
    )
    assert autoregressive.tokens == speculative.tokens
    assert autoregressive.calls == len(autoregressive.tokens) <= MAX_TOKENS
    assert len(speculative.tokens) / (3 + 1) <= speculative.calls <= len(speculative.tokens)
    assert 1 <= strategies.parallel(prompt, autoregressive) <= len(autoregressive.tokens)


def test_model_as_its_own_draft_is_always_accepted() -> None:
    large, _ = models()
    strategies = Strategies(large, large, end=11)
    decoded = strategies.speculative([1, 2], 3)
    assert decoded.tokens == strategies.autoregressive([1, 2]).tokens
    assert decoded.calls == -(-len(decoded.tokens) // 4)


def test_given_text_needs_one_call() -> None:
    large, _ = models()
    assert _one_call_or_many(large, [1, 5, 3, 8, 2]) < 1e-5
