"""Logits processors equal those of Hugging Face where it has the same."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)

from regard.decoding.logits_processors import (
    ForcePrefix,
    NoRepeatNgram,
    RepetitionPenalty,
    SuppressPhrases,
)
from regard.errors import ConfigError

V = 7
rows_of_ids = st.integers(1, 4).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, V - 1), min_size=length * 3, max_size=length * 3),
        min_size=1,
        max_size=3,
    )
)


@given(rows_of_ids, st.sampled_from([1.0, 1.3, 2.0]))
@settings(max_examples=40, deadline=None)
def test_repetition_penalty_equals_hugging_face(context: list[list[int]], penalty: float) -> None:
    scores = torch.randn(len(context), V)
    expected = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor(context), scores.clone())
    actual = RepetitionPenalty(penalty)(scores.clone().numpy(), context, range(len(context)))
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6)


@given(rows_of_ids, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_no_repeat_ngram_equals_hugging_face(context: list[list[int]], size: int) -> None:
    scores = torch.randn(len(context), V)
    expected = NoRepeatNGramLogitsProcessor(size)(torch.tensor(context), scores.clone())
    actual = NoRepeatNgram(size)(scores.clone().numpy(), context, range(len(context)))
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6)


@given(
    rows_of_ids,
    st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=3), min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_suppressed_phrases_equal_hugging_face(
    context: list[list[int]], phrases: list[list[int]]
) -> None:
    scores = torch.randn(len(context), V)
    expected = NoBadWordsLogitsProcessor(phrases)(torch.tensor(context), scores.clone())
    actual = SuppressPhrases(phrases)(scores.clone().numpy(), context, range(len(context)))
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-6)


def test_forced_prefix_leaves_one_token_with_its_score() -> None:
    scores = torch.randn(3, V).numpy()
    prefix = ForcePrefix({4: [2, 3], 6: [1]})
    actual = prefix(scores.copy(), [[2], [0], [5]], [4, 5, 6])
    assert actual[0].tolist() == [-math.inf] * 3 + [scores[0, 3].item()] + [-math.inf] * 3
    assert (actual[1:] == scores[1:]).all()


@pytest.mark.parametrize(
    "wrong",
    [lambda: RepetitionPenalty(0.5), lambda: NoRepeatNgram(0), lambda: SuppressPhrases([[1], []])],
)
def test_invalid_settings_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError):
        wrong()  # type: ignore[operator]
