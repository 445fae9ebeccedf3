"""Verdicts on sequential decoding from constructed evidence, and parts of the experiment."""

from typing import Any

import pytest
import torch

from regard.lab.claim import judge
from regard.lab.claims.decoding import CACHES, Spec, _one_call_or_many
from regard.lab.decoding_strategies import MAX_TOKENS, Strategies
from regard.models.base import ModelSpec

SPEC = Spec(draft_lengths=(2, 4))


def evidence_of(
    parallel: int = 90, speculative: int = 40, time: float = 0.6, cached: float = 0.1
) -> dict[str, Any]:
    """Return evidence of 100 generated tokens and two rounds of timing."""
    runs = [
        {
            "parameters": [1000, 100],
            "tokens": 100,
            "calls": 100,
            "parallel_calls": parallel + seed,
            "speculative": {
                "2": {"calls": speculative + seed, "drafted": 90, "same": [True] * 5},
                "4": {"calls": 95 + seed, "drafted": 200, "same": [True] * 5},
            },
            "logit_difference": 1e-6 * (1 + seed),
            "seconds": {"autoregressive": [1.0, 1.01], "2": [time, time + 0.01], "4": [3.0, 3.1]},
            "example": "",
        }
        for seed in range(3)
    ]
    powers = dict(zip(CACHES, (1.1, cached), strict=True))
    times = {
        cache: [[1e-5 * n ** (power + 0.01 * r) for r in range(3)] for n in Spec().lengths]
        for cache, power in powers.items()
    }
    return {"times": times, "runs": runs}


def test_supported_where_decoding_is_sequential_and_drafts_save_time() -> None:
    assert judge(Spec, SPEC.weigh(evidence_of()))[1] == "supported"


@pytest.mark.parametrize(
    ("evidence", "failing"),
    [
        (evidence_of(parallel=10), "parallel"),
        (evidence_of(speculative=95), "fewer"),
        (evidence_of(time=1.5), "wins"),
        (evidence_of(cached=1.0), "cached"),
    ],
)
def test_not_supported_where_one_criterion_fails(evidence: dict[str, Any], failing: str) -> None:
    outcomes, verdict = judge(Spec, SPEC.weigh(evidence))
    assert (outcomes[failing], verdict) == ("fails", "not supported here")


def test_not_supported_where_speculative_output_differs() -> None:
    evidence = evidence_of()
    for run in evidence["runs"]:
        run["speculative"]["2"]["same"] = [True, False] * 5
    assert judge(Spec, SPEC.weigh(evidence))[0]["same"] == "fails"


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
