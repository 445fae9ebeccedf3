"""Stop strings: text ends before the first of them, however it comes in pieces."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.predictors.stop_strings import StopStrings

LETTERS = st.text("ab\n", max_size=12)


def up_to_stop(pieces: list[str], strings: list[str]) -> tuple[str, bool]:
    stops = StopStrings(strings)
    text = ""
    for piece in pieces:
        text += stops.push(piece)
        if stops.reached:
            return text, True
    return text + stops.flush(), False


@given(LETTERS, st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=4), st.data())
@settings(deadline=None)
def test_text_ends_before_the_stop_string_that_is_complete_first(
    text: str, strings: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    for end in [*cuts, len(text)]:  # the pieces after which a stop string is there
        starts = [start for string in strings if (start := text[:end].find(string)) >= 0]
        if starts:
            assert up_to_stop(pieces, strings) == (text[: min(starts)], True)
            return
    assert up_to_stop(pieces, strings) == (text, False)


def test_no_more_is_held_back_than_may_begin_a_stop_string() -> None:
    stops = StopStrings(["END", "\n\n"])
    pieces = ["a", " E", "n", " EN", "X\n", "b\n", "\nc"]
    assert [stops.push(piece) for piece in pieces] == ["a", " ", "En", " ", "ENX", "\nb", ""]
    assert stops.reached


@pytest.mark.parametrize("strings", [[], ["x"]])
def test_text_without_a_stop_string_is_complete(strings: list[str]) -> None:
    assert up_to_stop(["one ", "two"], strings) == ("one two", False)
