"""Long text is split at sentence ends, punctuation, spaces, then anywhere, without loss."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.predictors.segment import SPLIT_POINTS, Segment, _split, split_to_fit


def at_most(characters: int):
    return lambda text: len(text) <= characters


def texts(segments: list[Segment]) -> list[str]:
    return [segment.text for segment in segments]


def test_text_that_fits_is_one_segment() -> None:
    assert split_to_fit("One. Two. Three.", at_most(50)) == [Segment("One. Two. Three.", "")]


def test_sentences_are_split_with_their_quotes() -> None:
    text = "It rains.  « Pourquoi ? » Mr. Smith asked 3.5 times! And left…"
    assert texts(split_to_fit(text, at_most(40))) == [
        "It rains.",
        "« Pourquoi ? »",
        "Mr. Smith asked 3.5 times!",
        "And left…",
    ]


def test_long_sentence_is_split_at_punctuation_then_spaces_then_anywhere() -> None:
    assert texts(split_to_fit("a cat, a dog, and a very small bird", at_most(14))) == [
        "a cat, a dog,",
        "and a very",
        "small bird",
    ]
    assert texts(split_to_fit("abcdefghij", at_most(4))) == ["abcd", "efgh", "ij"]


@given(st.text(alphabet="abc D.!?,;  \t«»", min_size=1, max_size=80), st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_segments_and_gaps_are_the_text_and_fit(text: str, size: int) -> None:
    segments = split_to_fit(text, at_most(size))
    assert "".join(segment.text + segment.gap for segment in segments) == text
    for segment in segments:
        assert len(segment.text.strip()) <= size
        assert not segment.gap.strip()


@pytest.mark.parametrize("unit", ["word ", "word, ", "One. Two, three! ", "x", " ", "« ”’ ", ".\t"])
def test_work_grows_in_proportion_to_the_text(unit: str) -> None:
    """Characters given to the tokenizer and to the patterns: twice the text, twice the work."""

    def characters(repetitions: int) -> int:
        total = 0

        def fits(text: str) -> bool:
            nonlocal total
            total += len(text)
            return len(text) <= 40

        text = f"a{unit * repetitions}b"
        segments = split_to_fit(text, fits)
        assert "".join(segment.text + segment.gap for segment in segments) == text
        return total

    assert characters(4000) <= 2.1 * characters(2000)


class _Counted(str):
    """A text that counts the characters that are copied out of it or stripped."""

    __slots__ = ("copied",)

    def __new__(cls, text: str) -> "_Counted":
        self = super().__new__(cls, text)
        self.copied = []
        return self

    def __getitem__(self, key: object) -> str:
        part = super().__getitem__(key)  # type: ignore[index]
        self.copied.append(len(part))
        return part


def test_splitting_copies_every_character_once() -> None:
    text = _Counted("word, " * 2000)
    assert len(_split(SPLIT_POINTS[2], text)) == 2000
    assert sum(text.copied) <= len(text)
