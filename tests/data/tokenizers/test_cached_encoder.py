"""Cached encoding gives the ids of the tokenizer."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.config import validate
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.cached_encoder import encoder

LINES = [
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "  The animal didn't cross the street, because it was too tired!\n\n",
    "Est-ce que le chat dort ? – « Non », dit-il.",
]
SPECS = [
    validate(TokenizerSpec, {"kind": kind, "vocabulary": 330, "spaces": spaces}, "recipe")
    for kind in ("bpe", "unigram", "word")
    for spaces in ("collapse", "keep")
]
BOTH = [(spec, spec.train(LINES * 3)) for spec in SPECS]

# Spaces of many kinds, what is joined or not to a word, accents apart, and anything else.
Texts = (
    st.text(
        st.sampled_from("alnq'’- \n\t\r\x1c\x1f\x85\xa0\u1680\u180e\u2003\u2028\u3000é\u0301<>.")
    )
    | st.text()
)


@settings(deadline=None)
@given(texts=st.lists(Texts, max_size=5))
@example(texts=["l'\u0301a  \u0301b", " '\x1ca l' a ", "", " ", "l'", "<s> a</s>", "qu'\nil  \n"])
def test_cached_encoder_equals_tokenizer(texts: list[str]) -> None:
    for spec, tokenizer in BOTH:
        encode: Any = encoder(spec, tokenizer)
        assert encode(texts) == tokenizer.encode_all(texts)
        assert encode(LINES + texts) == tokenizer.encode_all(LINES + texts)


def test_cache_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.tokenizers.cached_encoder.CACHE_SIZE", 10)
    spec, tokenizer = BOTH[0]
    encode: Any = encoder(spec, tokenizer)
    for number in range(0, 100, 5):
        texts = [f"word{each}" for each in range(number, number + 5)]
        assert encode(texts) == tokenizer.encode_all(texts)
        assert len(encode._cache) <= 16


def test_byte_tokenizer_is_not_cached() -> None:
    spec = TokenizerSpec.model_validate("byte")
    tokenizer = spec.train(())
    assert encoder(spec, tokenizer)(["a  b "]) == tokenizer.encode_all(["a  b "])
