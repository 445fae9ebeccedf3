"""Phrases that must be said are said, in the best way a wide enough beam can find."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decoding.test_beam import END, FIRST, Memory, Random, V, log_p

from regard.decoding.beam import Hypothesis, beam_search
from regard.decoding.diverse_beam import DiverseBeam
from regard.decoding.lexical_constraints import RequirePhrases, progress
from regard.errors import ConfigError

phrases = st.lists(st.lists(st.integers(1, V - 1), min_size=1, max_size=2), min_size=1, max_size=2)


def contains(ids: list[int], phrase: list[int]) -> bool:
    return any(ids[i : i + len(phrase)] == phrase for i in range(len(ids)))


@given(st.integers(0, 100_002), phrases, st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_everything_forced_is_said(line: int, wanted: list[list[int]], width: int) -> None:
    limit = 4 + sum(map(len, wanted))
    (found,) = beam_search(
        Random(), Memory(torch.tensor([line])), torch.tensor([FIRST]), END, [limit], width,
        select=RequirePhrases({0: wanted}, END),
    )  # fmt: skip
    assert found
    for hypothesis in found:
        assert progress(hypothesis.ids, wanted).missing == 0
        assert all(contains(hypothesis.ids, phrase) for phrase in wanted)
        total = sum(
            log_p(line, tuple(hypothesis.ids[:i]))[word]
            for i, word in enumerate([*hypothesis.ids, END])
        )
        assert hypothesis.score == pytest.approx(total / (len(hypothesis.ids) + 1))


def test_a_wide_beam_finds_the_best_sentence_that_has_it() -> None:
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
    (found,) = beam_search(
        Random(), Memory(torch.tensor([line])), torch.tensor([FIRST]), END, [4], 400,
        select=RequirePhrases({0: [phrase]}, END),
    )  # fmt: skip
    assert found[0].ids == best[1]
    assert found[0].score == pytest.approx(best[0])


def assert_alike(found: list[Hypothesis], wanted: list[Hypothesis]) -> None:
    """The same sentences, and scores but for the last digits: sums have another order."""
    assert [each.ids for each in found] == [each.ids for each in wanted]
    assert [each.score for each in found] == pytest.approx([each.score for each in wanted])


def test_rows_with_nothing_forced_are_searched_as_ever() -> None:
    lines, first = torch.tensor([5, 6]), torch.tensor([FIRST, FIRST])
    plain = beam_search(Random(), Memory(lines), first, END, [6, 6], 4)
    forced = beam_search(
        Random(), Memory(lines), first, END, [6, 6], 4, select=RequirePhrases({1: [[2, 2]]}, END)
    )
    assert_alike(forced[0], plain[0])
    assert all(contains(each.ids, [2, 2]) for each in forced[1])


def test_how_far_a_beginning_has_come() -> None:
    wanted = [[1, 2, 3], [4]]
    assert progress([], wanted).missing == 4
    assert progress([], wanted).next == {1, 4}
    assert progress([4, 1, 2], wanted).missing == 1
    assert progress([4, 1, 2], wanted).next == {3}
    assert progress([1, 2, 4], wanted).missing == 3
    assert progress([1, 2, 3, 4], wanted).missing == 0
    assert progress([4], [[4], [4]]).missing == 1  # twice is twice


def test_groups_say_different_things() -> None:
    lines, first = torch.tensor([8]), torch.tensor([FIRST])
    (apart,) = beam_search(Random(), Memory(lines), first, END, [6], 4, select=DiverseBeam(4, 1e6))
    (one_group,) = beam_search(
        Random(), Memory(lines), first, END, [6], 4, select=DiverseBeam(1, 1e6)
    )
    (plain,) = beam_search(Random(), Memory(lines), first, END, [6], 4)
    assert_alike(one_group, plain)
    beginnings = {each.ids[0] if each.ids else END for each in apart}
    assert len(beginnings) == len(apart)
    with pytest.raises(ConfigError, match="groups"):
        beam_search(Random(), Memory(lines), first, END, [6], 4, select=DiverseBeam(3))
