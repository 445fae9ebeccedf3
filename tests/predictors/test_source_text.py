"""The part of a source that is translated, and what is put around its translation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokenizers import bpe
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.predictors.copies import lost_copies
from regard.predictors.source_text import SourceText, in_lower_case, without_edges

TEXT = ["the cat sleeps in the small house", "le chat dort dans la petite maison", "Hello Tom."]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return bpe.Spec(vocabulary=400).train(TEXT * 20)


@pytest.mark.parametrize(
    ("line", "before", "text", "after"),
    [
        ("le chat", "", "le chat", ""),
        ("  le chat\t", "  ", "le chat", "\t"),
        ("🎉 le chat 🎉🎉", "🎉 ", "le chat", " 🎉🎉"),
        ("- le chat", "- ", "le chat", ""),
        ("  12. 🎉 le chat", "  12. 🎉 ", "le chat", ""),
        ("12 le chat", "", "12 le chat", ""),
        ("le 🎉 chat", "", "le 🎉 chat", ""),
    ],
)
def test_edges_are_put_around_the_translation(
    tokenizer: Tokenizer, line: str, before: str, text: str, after: str
) -> None:
    source = without_edges(line, tokenizer)
    assert (source.before, source.text, source.after) == (before, text, after)
    assert source.restored("the cat") == f"{before}the cat{after}"


@given(st.text())
def test_no_character_of_a_source_is_lost(tokenizer: Tokenizer, line: str) -> None:
    assert without_edges(line, tokenizer).line == line


@pytest.mark.parametrize(
    ("line", "copied"),
    [
        ("🎉🎉", True),
        ("12:30 — 14:00", True),
        ("https://example.org/le-chat", True),
        ("me@example.org, {name} <b>", True),
        ("https://example.org le chat", False),
        ("a", False),
    ],
)
def test_text_without_words_is_copied(tokenizer: Tokenizer, line: str, copied: bool) -> None:
    assert without_edges(line, tokenizer).copied is copied


def test_capitals_are_translated_in_lower_case(tokenizer: Tokenizer) -> None:
    source = in_lower_case(SourceText("« LE CHAT DORT »", after="!"), tokenizer)
    assert source == SourceText("« Le chat dort »", after="!", capitals=True)
    assert source.restored("the cat sleeps") == "THE CAT SLEEPS!"


@pytest.mark.parametrize("text", ["NATO", "Le CHAT DORT", "12", "1 A 2 B 3"])
def test_names_and_mixed_case_stay(tokenizer: Tokenizer, text: str) -> None:
    assert in_lower_case(SourceText(text), tokenizer) == SourceText(text)


@pytest.mark.parametrize(
    ("source", "translation", "lost"),
    [
        ("le chat a 12 ans", "the cat is 12", []),
        ("le chat a 12 ans", "the cat is old", ["12"]),
        ("vers 10 h 30, 1 000 chats", "at 10:30, 1,000 cats", []),
        ("1,000 chats", "1000 cats", []),
        ("voir https://a.org/b.", "see https://a.org", ["https://a.org/b"]),
        ("le chat Kowalczyk dort", "the cat Kowalski sleeps", ["Kowalczyk"]),
        ("le chat d'Ouagadougou", "the cat of Ouagadougou", []),
        ("Kowalczyk dort", "he sleeps", []),  # the first word has a capital letter anyway
        ("le chat 🎉 dort", "the cat sleeps", ["🎉"]),
    ],
)
def test_numbers_links_names_and_unseen_characters_are_missed(
    tokenizer: Tokenizer, source: str, translation: str, lost: list[str]
) -> None:
    assert lost_copies(source, translation, tokenizer) == lost
