"""Long text is cut where a reader would pause, and nothing of it is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.predictors.placeholders import missing_placeholders, placeholders
from regard.predictors.segment import Segment, split_to_fit


def at_most(characters: int):
    return lambda text: len(text) <= characters


def texts(pieces: list[Segment]) -> list[str]:
    return [piece.text for piece in pieces]


def test_what_fits_stays_whole() -> None:
    assert split_to_fit("One. Two. Three.", at_most(50)) == [Segment("One. Two. Three.", "")]


def test_sentences_are_cut_apart_with_their_quotes() -> None:
    text = "It rains.  « Pourquoi ? » Mr. Smith asked 3.5 times! And left…"
    assert texts(split_to_fit(text, at_most(40))) == [
        "It rains.",
        "« Pourquoi ? »",
        "Mr. Smith asked 3.5 times!",
        "And left…",
    ]


def test_a_long_sentence_is_cut_at_its_pauses_then_between_words_then_anywhere() -> None:
    assert texts(split_to_fit("a cat, a dog, and a very small bird", at_most(14))) == [
        "a cat, a dog,",
        "and a very",
        "small bird",
    ]
    assert texts(split_to_fit("abcdefghij", at_most(4))) == ["abcd", "efgh", "ij"]


@given(st.text(alphabet="abc D.!?,;  \t«»", min_size=1, max_size=80), st.integers(1, 30))
@settings(max_examples=300, deadline=None)
def test_the_pieces_are_the_text_and_fit(text: str, size: int) -> None:
    pieces = split_to_fit(text, at_most(size))
    assert "".join(piece.text + piece.gap for piece in pieces) == text
    for piece in pieces:
        assert len(piece.text.strip()) <= size
        assert not piece.gap.strip()


def test_what_must_be_kept_is_found() -> None:
    text = "See https://a.org/x?y=1, mail me@b.fr: {name} has %d of %(all)s &amp; <b>1,234.5</b>."
    kept = ["https://a.org/x?y=1", "me@b.fr", "{name}", "%d", "%(all)s", "&amp;"]
    assert placeholders(text) == [*kept, "<b>", "1,234.5", "</b>"]
    assert missing_placeholders("%s and %s", "et %s") == ["%s"]
    assert missing_placeholders("{a} 10", "10 {a}") == []
