"""Each rule by itself, against Hugging Face where it has the same, and in a search."""

import math

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
def test_repetition_costs_as_in_hugging_face(said: list[list[int]], penalty: float) -> None:
    scores = torch.randn(len(said), V)
    wanted = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor(said), scores.clone())
    found = RepetitionPenalty(penalty)(scores.clone(), said, range(len(said)))
    torch.testing.assert_close(found, wanted)


@given(rows_of_ids, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_ngrams_are_not_repeated_as_in_hugging_face(said: list[list[int]], size: int) -> None:
    scores = torch.randn(len(said), V)
    wanted = NoRepeatNGramLogitsProcessor(size)(torch.tensor(said), scores.clone())
    found = NoRepeatNgram(size)(scores.clone(), said, range(len(said)))
    torch.testing.assert_close(found, wanted)


@given(
    rows_of_ids,
    st.lists(st.lists(st.integers(0, V - 1), min_size=1, max_size=3), min_size=1, max_size=3),
)
@settings(max_examples=60, deadline=None)
def test_forbidden_phrases_are_those_of_hugging_face(
    said: list[list[int]], phrases: list[list[int]]
) -> None:
    scores = torch.randn(len(said), V)
    wanted = NoBadWordsLogitsProcessor(phrases)(torch.tensor(said), scores.clone())
    found = SuppressPhrases(phrases)(scores.clone(), said, range(len(said)))
    torch.testing.assert_close(found, wanted)


def test_a_prefix_leaves_one_word_and_its_score() -> None:
    scores = torch.randn(3, V)
    prefix = ForcePrefix({4: [2, 3], 6: [1]})
    found = prefix(scores.clone(), [[2], [0], [5]], [4, 5, 6])
    assert found[0].tolist() == [-math.inf] * 3 + [scores[0, 3].item()] + [-math.inf] * 3
    assert torch.equal(found[1:], scores[1:])


@pytest.mark.parametrize(
    "wrong",
    [lambda: RepetitionPenalty(0.5), lambda: NoRepeatNgram(0), lambda: SuppressPhrases([[1], []])],
)
def test_what_makes_no_sense_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError):
        wrong()  # type: ignore[operator]
