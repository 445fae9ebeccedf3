"""Lexically constrained beam search: required phrases are in every hypothesis."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.test_beam import END, FIRST, Random, RandomState, V, log_p

from regard.decoding.beam import Hypothesis, beam_search
from regard.decoding.lexical_constraints import RequirePhrases, progress

phrases = st.lists(st.lists(st.integers(1, V - 1), min_size=1, max_size=2), min_size=1, max_size=2)


def contains(ids: list[int], phrase: list[int]) -> bool:
    return any(ids[i : i + len(phrase)] == phrase for i in range(len(ids)))


@given(st.integers(0, 100_002), phrases, st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_every_hypothesis_contains_the_phrases(
    line: int, expected: list[list[int]], width: int
) -> None:
    limit = 4 + sum(map(len, expected))
    (actual,) = beam_search(
        Random(), RandomState(np.array([line])), np.array([FIRST]), END, [limit], width,
        select=RequirePhrases({0: expected}, END),
    )  # fmt: skip
    assert actual
    for hypothesis in actual:
        assert progress(hypothesis.ids, expected).missing == 0
        assert all(contains(hypothesis.ids, phrase) for phrase in expected)
        total = sum(
            log_p(line, tuple(hypothesis.ids[:i]))[word]
            for i, word in enumerate([*hypothesis.ids, END])
        )
        assert hypothesis.score == pytest.approx(total / (len(hypothesis.ids) + 1))


def test_wide_beam_finds_the_best_constrained_hypothesis() -> None:
    line, phrase = 11, [3, 1]
    best = max(
        (
            sum(log_p(line, ids[:i])[word] for i, word in enumerate((*ids, END))) / (len(ids) + 1),
            list(ids),
        )
        for length in range(5)
        for ids in product([1, 2, 3, 4], repeat=length)
        if contains(list(ids), phrase)
    )
    (actual,) = beam_search(
        Random(), RandomState(np.array([line])), np.array([FIRST]), END, [4], 400,
        select=RequirePhrases({0: [phrase]}, END),
    )  # fmt: skip
    assert actual[0].ids == best[1]
    assert actual[0].score == pytest.approx(best[0])


def assert_close(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Compare ids exactly and scores approximately: sums have another order."""
    assert [each.ids for each in actual] == [each.ids for each in expected]
    assert [each.score for each in actual] == pytest.approx([each.score for each in expected])


def test_unconstrained_rows_are_searched_as_before() -> None:
    lines, first = np.array([5, 6]), np.array([FIRST, FIRST])
    plain = beam_search(Random(), RandomState(lines), first, END, [6, 6], 4)
    forced = beam_search(
        Random(),
        RandomState(lines),
        first,
        END,
        [6, 6],
        4,
        select=RequirePhrases({1: [[2, 2]]}, END),
    )
    assert_close(forced[0], plain[0])
    assert all(contains(each.ids, [2, 2]) for each in forced[1])


def test_progress_counts_missing_tokens() -> None:
    expected = [[1, 2, 3], [4]]
    assert progress([], expected).missing == 4
    assert progress([], expected).next == {1, 4}
    assert progress([4, 1, 2], expected).missing == 1
    assert progress([4, 1, 2], expected).next == {3}
    assert progress([1, 2, 4], expected).missing == 3
    assert progress([1, 2, 3, 4], expected).missing == 0
    assert progress([4], [[4], [4]]).missing == 1  # twice is twice
