"""Incremental decoding gives the text of all ids and decodes each id a bounded number of times."""

from collections.abc import Sequence
from functools import cache
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.config import validate
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.predictors.stream_text import WINDOW, incremental_decode

TEXT = ["A dog runs, doesn't it? Ünïcödé — 日本 🦊🦊 résolu.", "the grass near 12 trees " * 3]
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


@cache
def made(kind: str) -> Tokenizer:
    trainers_ = {"special_tokens": SPECIAL, "show_progress": False}
    if kind == "byte-level":  # as GPT-2: a token may be one byte of several
        backend = Backend(models.BPE(unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, **trainers_)
    elif kind == "metaspace":  # puts a space before every text, as Llama does
        backend = Backend(models.Unigram())
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=120, unk_token="<unk>", **trainers_)
    elif kind == "wordpiece":
        backend = Backend(models.WordPiece(unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(vocab_size=150, **trainers_)
    else:
        learned = {"vocabulary": 400} if kind in ("bpe", "unigram", "word") else {}
        return validate(TokenizerSpec, {"kind": kind, **learned}, "a test").train(TEXT)
    backend.train_from_iterator(TEXT * 3, trainer)
    return Tokenizer(backend)


KINDS = [
    "bpe", "unigram", "word", "character", "byte", "byte-level", "metaspace", "wordpiece",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
@settings(deadline=None, max_examples=40)
def test_parts_joined_are_the_text_of_all_ids(kind: str, data: st.DataObject) -> None:
    """Random ids: halves of characters, special tokens and bytes that are not UTF-8 among them."""
    tokenizer = made(kind)
    token = st.integers(0, len(tokenizer) - 1)
    words = st.sampled_from(["🦊", "é", "日", " dog", "the grass"]).map(tokenizer.encode)
    parts = st.one_of(token.map(lambda id_: [id_]), words, st.lists(token, max_size=12))
    ids = list(chain.from_iterable(data.draw(st.lists(parts, max_size=30))))
    assert "".join(incremental_decode(ids, tokenizer.decode)) == tokenizer.decode(ids)
    after = tokenizer.decode_after(tokenizer.encode("A dog"))
    assert "".join(incremental_decode(ids, after)) == after(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_every_id_is_decoded_a_bounded_number_of_times(kind: str) -> None:
    tokenizer = made(kind)
    byte = [tokenizer.vocabulary().index("<0xA0>")] if kind in ("bpe", "byte") else []
    for ids in (tokenizer.encode(TEXT[0] * 40), [*byte * 500, *tokenizer.encode(TEXT[1])]):
        decoded: list[int] = []

        def decode(
            some: Sequence[int], decoded: list[int] = decoded, tokenizer: Tokenizer = tokenizer
        ) -> str:
            decoded.append(len(some))
            return tokenizer.decode(some)

        assert "".join(incremental_decode(ids, decode)) == tokenizer.decode(ids)
        assert max(decoded) <= WINDOW
        assert sum(decoded) <= 2 * WINDOW * len(ids)


def test_text_is_yielded_as_soon_as_a_character_is_complete() -> None:
    tokenizer = made("byte")
    ids = tokenizer.encode("aé🦊b")
    parts = list(incremental_decode(ids, tokenizer.decode))
    assert [part.strip() for part in parts if part.strip()] == ["a", "é", "🦊", "b"]
    half = list(incremental_decode(ids[:-2], tokenizer.decode))
    assert "".join(half) == tokenizer.decode(ids[:-2])
    assert half[-1] == "�"
