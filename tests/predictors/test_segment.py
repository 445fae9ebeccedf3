"""Long text is split at sentence ends, punctuation, spaces, then anywhere, without loss."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.predictors.segment import Segment, split_to_fit


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
