"""Streaming encoding gives the ids of the whole text."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.config import validate
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.streaming_encoder import StreamingEncoder
from regard.data.tokenizers.tokenizer import Tokenizer

TEXT = [
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\n",
    "All:\nSpeak, speak.\n\n\n\n  It is résolu — to die,\n\n rather than to famish ?\n",
]
KINDS = ["bpe", "unigram", "word", "character", "byte"]


@cache
def made(kind: str) -> Tokenizer:
    if kind == "metaspace":  # puts a space before every text, as Llama does
        backend = Backend(models.BPE(unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        backend.decoder = decoders.Metaspace(prepend_scheme="first")
        special = ["<pad>", "<unk>", "<s>", "</s>"]
        trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False)
        backend.train_from_iterator(TEXT * 3, trainer)
        return Tokenizer(backend)
    learned = {"vocabulary": 400, "spaces": "keep"} if kind in ("bpe", "unigram", "word") else {}
    return validate(TokenizerSpec, {"kind": kind, **learned}, "a test").train(TEXT * 3)


some = st.sampled_from(["speak, speak", "It", " is  résolu", "", "  ", "to die —", "日本"])
lines = st.lists(some, max_size=12)


@pytest.mark.parametrize("kind", [*KINDS, "metaspace"])
@settings(deadline=None, max_examples=40)
@given(st.lists(lines, max_size=5))
def test_streamed_ids_equal_those_of_the_whole_text(kind: str, stretches: list[list[str]]) -> None:
    tokenizer = made(kind)
    texts = ["".join(f"{line}\n" for line in each) for each in stretches]
    running = StreamingEncoder(tokenizer)
    found = [each for text in texts for each in running.add(text)] + running.finish()
    assert found == tokenizer.encode("".join(texts))


@pytest.mark.parametrize("kind", [*KINDS, "metaspace"])
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from(["speak", ",", " ", "\n", "\n\n", "It is\n", "\n ré"]), max_size=14)
)
def test_chunks_may_end_anywhere_between_words(kind: str, chunks: list[str]) -> None:
    tokenizer, running = made(kind), StreamingEncoder(made(kind))
    streamed = [token for chunk in chunks for token in running.add(chunk)] + running.finish()
    assert streamed == tokenizer.encode("".join(chunks))


def test_long_line_in_many_chunks_is_encoded_once() -> None:
    """Characters given to the tokenizer, for text without lines, of blank lines and of lines."""
    tokenizer = made("bpe")
    encoded: list[int] = []

    class Counting(Tokenizer):
        def __init__(self) -> None:
            pass

        def spans(self, text: str) -> list[tuple[int, int, int]]:
            encoded.append(len(text))
            return tokenizer.spans(text)

    for chunk in ("speak, speak ", "\n\n\n\n", "speak,\nspeak"):
        running = StreamingEncoder(Counting())
        for _ in range(400):
            running.add(chunk)
        running.finish()
        assert sum(encoded) <= 4 * 400 * len(chunk)
        encoded.clear()


def test_ids_are_returned_before_the_end() -> None:
    running = StreamingEncoder(made("bpe"))
    given = [running.add(text) for text in TEXT * 50]
    assert sum(map(len, given[:50])) > 500
    assert len(running.finish()) < 50
