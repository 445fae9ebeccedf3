"""Sampling: the distribution of Hugging Face, correct frequencies, the same in any batch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from regard.decoding.sampling import Sampling
from regard.errors import ConfigError


@given(
    st.floats(0.2, 3), st.integers(0, 12), st.floats(0.05, 1), st.floats(0, 0.9), st.integers(0, 99)
)
@settings(max_examples=80, deadline=None)
def test_distribution_equals_hugging_face(
    temperature: float, top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    logits = torch.randn(3, 10, generator=torch.Generator().manual_seed(seed)).double() * 3
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p > 0:
        warpers.append(MinPLogitsWarper(min_p))
    expected = warpers(None, logits.clone()).softmax(-1)
    actual = Sampling(temperature, top_k, top_p, min_p).distribution(logits.numpy())
    # With a top_p that rounding cannot tell from 1, a token of 1e-16 may be dropped in one of them.
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-7, atol=1e-12)


def test_tokens_are_drawn_with_their_probabilities() -> None:
    logits = np.array([2.0, 1.0, 0.0, -1.0, 0.5])
    sampling = Sampling(temperature=1.5, top_k=4, seed=3)
    p = sampling.distribution(logits[None])[0]
    draws = np.concatenate([sampling(np.tile(logits, (50, 1)), range(50), s) for s in range(80)])
    counts = np.bincount(draws, minlength=5)
    assert counts[3] == 0
    possible = p > 0
    expected = p[possible] * len(draws)
    chi2 = ((counts[possible] - expected) ** 2 / expected).sum()
    assert chi2 < 16.3  # 3 degrees of freedom: once in a thousand


def test_draws_depend_on_seed_row_and_step_only() -> None:
    logits = torch.randn(6, 40).numpy()
    together = Sampling(seed=1)(logits, range(6), 4)
    for row in range(6):
        assert Sampling(seed=1)(logits[row : row + 1], [row], 4) == together[row]
    assert not np.array_equal(Sampling(seed=2)(logits, range(6), 4), together)
    assert not np.array_equal(Sampling(seed=1)(logits, range(6), 5), together)


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0}, {"top_k": -1}, {"top_p": 0}, {"min_p": 1.5}, {"seed": -1}]
)
def test_invalid_settings_are_refused(wrong: dict[str, float]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=name):
        Sampling(**wrong)  # type: ignore[arg-type]
