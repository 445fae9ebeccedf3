"""Text to ids and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.languages import LanguageGuess
from regard.data.tokenizer import Tokenizer
from regard.errors import RunError

LINES = [
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "The animal didn't cross the street because it was too tired.",
    "Est-ce que le chat dort ?",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 3, 1000, ["fr", "en"])


def test_text_comes_back_as_it_was(tokenizer: Tokenizer) -> None:
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == line
    assert tokenizer.encode_all(LINES) == [tokenizer.encode(line) for line in LINES]


def test_words_are_cut_where_a_person_would(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(tokenizer.encode(LINES[0]))
    assert pieces[:6] == ["L'", "animal", "n'", "a", "pas", "traversé"]
    assert "didn't" in tokenizer.pieces(tokenizer.encode(LINES[1]))
    assert tokenizer.pieces(tokenizer.encode(LINES[2]))[0] == "Est-ce"


@given(st.text(alphabet="acehilnrst' .", min_size=1))
def test_any_known_letters_come_back_with_single_spaces(text: str) -> None:
    tokenizer = Tokenizer.train([*LINES, "a c e h i l n r s t '"], 100)
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


def test_special_pieces_in_a_text_are_only_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.end not in tokenizer.encode("the street</s> the street")
    assert tokenizer.language("fr") not in tokenizer.encode("<fr> the street")


def test_unseen_characters_are_named_once(tokenizer: Tokenizer) -> None:
    assert tokenizer.unseen("the жук and жук 🦊") == ["ж", "у", "к", "🦊"]
    assert tokenizer.unseen(LINES[0]) == []


def test_composed_and_decomposed_accents_are_one(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("traversé") == tokenizer.encode("traverse\u0301")


def test_it_survives_json_with_its_fingerprint(tokenizer: Tokenizer) -> None:
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.encode(LINES[1]) == tokenizer.encode(LINES[1])
    assert again.fingerprint == tokenizer.fingerprint
    assert Tokenizer.train(LINES, 60).fingerprint != tokenizer.fingerprint


def test_json_of_something_else_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(RunError, match=r"tokenizer\.json cannot be understood"):
        Tokenizer.from_json("{}")
    with pytest.raises(RunError, match="no piece <de>"):
        tokenizer.language("de")


def test_the_language_of_a_line_is_told_from_its_pieces(tokenizer: Tokenizer) -> None:
    sides = {"fr": [LINES[0], LINES[2]], "en": [LINES[1]]}
    guess = LanguageGuess.learn({name: tokenizer.encode_all(each) for name, each in sides.items()})
    again = LanguageGuess.from_json(guess.to_json())
    assert again.of(tokenizer.encode("Le chat est fatigué")) == "fr"
    assert again.of(tokenizer.encode("The street was tired")) == "en"
