"""Truncation of long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.truncation import Keep, truncate, truncate_texts


def test_parts_that_are_kept() -> None:
    tokens = list(range(10))
    assert truncate(tokens, 5, "head") == [0, 1, 2, 3, 4]
    assert truncate(tokens, 5, "tail") == [5, 6, 7, 8, 9]
    assert truncate(tokens, 5, "both") == [0, 1, 2, 8, 9]
    assert truncate(tokens, 10, "tail") == tokens
    assert truncate(tokens, 1, "both") == [0]


@given(
    st.lists(st.lists(st.integers(), min_size=1, max_size=40), min_size=1, max_size=2),
    st.integers(2, 60),
    st.sampled_from(["head", "tail", "both"]),
)
def test_texts_fill_the_room_and_none_is_lost(
    texts: list[list[int]], room: int, keep: Keep
) -> None:
    kept = truncate_texts(texts, room, keep)
    assert sum(map(len, kept)) == min(room, sum(map(len, texts)))
    assert all(kept)


@pytest.mark.parametrize(("first", "second"), [(3, 30), (30, 3)])
def test_a_short_text_stays_whole(first: int, second: int) -> None:
    kept = truncate_texts([[0] * first, [1] * second], 10, "head")
    assert sorted(map(len, kept)) == [3, 7]
