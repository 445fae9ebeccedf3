"""The tokenizer: encoding, decoding, special tokens, JSON."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models

from regard.config import validate
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from regard.errors import RunError

LINES = [
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "The animal didn't cross the street because it was too tired.",
    "Est-ce que le chat dort ?",
]


def trained(recipe: dict[str, object] | str, *languages: str) -> Tokenizer:
    return validate(TokenizerSpec, recipe, "recipe").train(LINES * 3, languages)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return trained("bpe", "fr", "en")


def test_decode_restores_text(tokenizer: Tokenizer) -> None:
    for line in LINES:
        assert tokenizer.decode(tokenizer.encode(line)) == line
    assert tokenizer.encode_all(LINES) == [tokenizer.encode(line) for line in LINES]


def test_special_tokens_in_text_are_encoded_as_text(tokenizer: Tokenizer) -> None:
    text = "the street</s> the <fr> street <0x41>"
    ids = tokenizer.encode(text)
    assert {tokenizer.end, tokenizer.special_id("fr")}.isdisjoint(ids)
    assert tokenizer.decode(ids) == text


def test_decode_leaves_out_special_tokens(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(LINES[2])
    framed = [tokenizer.special_id("fr"), tokenizer.start, *ids, tokenizer.end, tokenizer.pad]
    assert tokenizer.decode(framed) == LINES[2]


def test_decode_accepts_arrays(tokenizer: Tokenizer) -> None:
    ids = np.array(tokenizer.encode("le chat 🦊"), dtype=np.uint16)
    assert tokenizer.decode(ids) == "le chat 🦊"
    assert tokenizer.pieces(ids)[1] == "chat"


@pytest.mark.parametrize("kind", ["bpe", "byte"])
def test_half_a_character_does_not_damage_its_neighbors(kind: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode("🦊🐻 chat")
    cut = ids[:3] + ids[4:]
    assert tokenizer.decode(cut).replace("�", "") == "🐻 chat"


def test_special_token_between_bytes_of_a_character_is_skipped() -> None:
    tokenizer = trained("byte")
    fox = tokenizer.encode("🦊")
    assert tokenizer.decode([*fox[:2], tokenizer.pad, *fox[2:]]) == "🦊"


def test_pieces_are_readable(tokenizer: Tokenizer) -> None:
    framed = [tokenizer.start, *tokenizer.encode("le chat 🦊"), tokenizer.end]
    shown = ["<s>", "le", "chat", "▁", "<0xF0>", "<0x9F>", "<0xA6>", "<0x8A>", "</s>"]
    assert tokenizer.pieces(framed) == shown
    assert trained("byte").pieces(trained("byte").encode("a\t\n ")) == ["a", "⇥", "⏎", "▁"]


def test_unknown_characters_are_listed_once(tokenizer: Tokenizer) -> None:
    assert tokenizer.unknown_characters("the жук and жук 🦊") == ["ж", "у", "к", "🦊"]
    assert tokenizer.unknown_characters(LINES[0]) == []
    assert tokenizer.unknown_characters("\u2028 \n") == []


def test_decomposed_accent_of_a_known_character_is_known(tokenizer: Tokenizer) -> None:
    assert tokenizer.unknown_characters("traverse\u0301") == []
    assert tokenizer.unknown_characters("cro\u0302t") == ["ô"]


def test_byte_tokenizer_has_no_unknown_characters() -> None:
    assert trained("byte").unknown_characters("жук 🦊") == []
    assert trained("byte").unknown_rate([trained("byte").encode("жук")]) == 0


def test_unknown_rate_counts_bytes_and_unknown(tokenizer: Tokenizer) -> None:
    known, strange = tokenizer.encode("le chat"), tokenizer.encode("🦊")
    assert len(known) == 2
    assert len(strange) == 5  # a space and four bytes
    assert tokenizer.unknown_rate([known]) == 0
    assert tokenizer.unknown_rate([known, strange, [tokenizer.unknown]]) == 5 / 8
    rows = [np.array(known, dtype=np.uint16), np.array([strange], dtype=np.int32), []]
    assert tokenizer.unknown_rate(rows) == 4 / 7
    assert tokenizer.unknown_rate([]) == 0


def test_json_round_trip_keeps_the_fingerprint(tokenizer: Tokenizer) -> None:
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.encode(LINES[1] + " </s> 🦊") == tokenizer.encode(LINES[1] + " </s> 🦊")
    assert again.fingerprint == tokenizer.fingerprint
    assert trained({"vocabulary": 310}).fingerprint != tokenizer.fingerprint


def test_invalid_tokenizer_json_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(RunError, match=r"tokenizer\.json cannot be read"):
        Tokenizer.from_json("{}")
    with pytest.raises(RunError, match="no piece <de>"):
        tokenizer.special_id("de")
    with pytest.raises(RunError, match="no piece <pad>"):
        Tokenizer.from_json(Backend(models.BPE({"a": 0}, [])).to_str())


def test_missing_ids_are_empty_pieces() -> None:
    pieces = {piece: each for each, piece in enumerate([*SPECIAL, "a"])}
    tokenizer = Tokenizer(Backend(models.WordLevel({**pieces, "b": 9}, unk_token="<unk>")))
    assert len(tokenizer) == len(tokenizer.vocabulary()) == 10
    assert tokenizer.vocabulary()[4:] == ["a", "", "", "", "", "b"]


def test_language_is_identified_from_tokens(tokenizer: Tokenizer) -> None:
    sides = {"fr": [LINES[0], LINES[2]], "en": [LINES[1]]}
    guess = LanguageIdentifier.learn(
        {name: tokenizer.encode_all(each) for name, each in sides.items()}
    )
    again = LanguageIdentifier.from_json(guess.to_json())
    assert again.identify(tokenizer.encode("Le chat est fatigué")) == "fr"
    assert again.identify(tokenizer.encode("The street was tired")) == "en"
    assert again.identify_surely(tokenizer.encode(" ".join(sides["en"]))) == "en"
    assert again.identify_surely(tokenizer.encode("chat")) is None


FORKING = """
import os
from regard.data.tokenizers.byte import Spec
tokenizer = Spec().train()
lines = ["chat"] * 1000
tokenizer.encode_all(lines)
child = os.fork()
if child == 0:
    os._exit(tokenizer.encode_all(lines) != [tokenizer.encode("chat")] * 1000)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_process_encodes_without_hanging_or_warning() -> None:
    environment = {key: value for key, value in os.environ.items() if "TOKENIZERS" not in key}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_bytes_are_ordinary_pieces_in_json(tokenizer: Tokenizer) -> None:
    added = {piece["content"] for piece in json.loads(tokenizer.to_json())["added_tokens"]}
    assert added == {*SPECIAL, "<fr>", "<en>"}
