"""Verdicts on sequential decoding from given evidence, and parts of the experiment."""

from typing import Any

import pytest
import torch

from regard.lab.claim import judge
from regard.lab.claims.decoding import WAYS, Spec, _one_call_or_many
from regard.lab.decoding_strategies import MAX_TOKENS, Strategies
from regard.models.base import ModelSpec

SPEC = Spec(ahead=(2, 4))


def evidence_of(
    at_once: int = 90, guessed: int = 40, time: float = 0.6, cached: float = 0.1
) -> dict[str, Any]:
    """Of 100 words said; two rounds of timing."""
    said = [
        {
            "parameters": [1000, 100],
            "words": 100,
            "calls": 100,
            "calls_at_once": at_once + seed,
            "guessed": {
                "2": {"calls": guessed + seed, "guesses": 90, "same": [True] * 5},
                "4": {"calls": 95 + seed, "guesses": 200, "same": [True] * 5},
            },
            "given": 1e-6 * (1 + seed),
            "seconds": {"plainly": [1.0, 1.01], "2": [time, time + 0.01], "4": [3.0, 3.1]},
            "example": "",
        }
        for seed in range(3)
    ]
    powers = dict(zip(WAYS, (1.1, cached), strict=True))
    times = {
        way: [[1e-5 * n ** (power + 0.01 * r) for r in range(3)] for n in Spec().lengths]
        for way, power in powers.items()
    }
    return {"times": times, "said": said}


def test_supported_where_decoding_is_sequential_and_drafts_save_time() -> None:
    assert judge(Spec, SPEC.weigh(evidence_of()))[1] == "supported"


@pytest.mark.parametrize(
    ("evidence", "failing"),
    [
        (evidence_of(at_once=10), "at_once"),
        (evidence_of(guessed=95), "fewer"),
        (evidence_of(time=1.5), "wins"),
        (evidence_of(cached=1.0), "cached"),
    ],
)
def test_not_supported_where_one_criterion_fails(evidence: dict[str, Any], failing: str) -> None:
    outcomes, verdict = judge(Spec, SPEC.weigh(evidence))
    assert (outcomes[failing], verdict) == ("fails", "not supported here")


def test_not_supported_where_speculative_output_differs() -> None:
    evidence = evidence_of()
    for each in evidence["said"]:
        each["guessed"]["2"]["same"] = [True, False] * 5
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


@pytest.mark.parametrize("begun", [[1, 2], [1, 5, 7], [3, 3, 3, 9]])
def test_all_strategies_have_the_same_output(begun: list[int]) -> None:
    large, small = models()
    told = Strategies(large, small, end=0)
    plainly, guessed = told.autoregressive(begun), told.speculative(begun, 3)
    assert plainly.tokens == guessed.tokens
    assert plainly.calls == len(plainly.tokens) <= MAX_TOKENS
    assert len(guessed.tokens) / (3 + 1) <= guessed.calls <= len(guessed.tokens)
    assert 1 <= told.parallel(begun, plainly) <= len(plainly.tokens)


def test_model_as_its_own_draft_is_always_accepted() -> None:
    large, _ = models()
    told = Strategies(large, large, end=11)
    said = told.speculative([1, 2], 3)
    assert said.tokens == told.autoregressive([1, 2]).tokens
    assert said.calls == -(-len(said.tokens) // 4)


def test_given_text_needs_one_call() -> None:
    large, _ = models()
    assert _one_call_or_many(large, [1, 5, 3, 8, 2]) < 1e-5
