"""Texts of tokens of every kind of tokenizer, with the places of the tokens."""

import pytest

from regard.predictors.scored_tokens import ScoredToken
from regard.serving.continuation import Continuation

from ..predictors.test_stream_text import KINDS, made

TEXT = "A dog runs, doesn't it? Ünï 🦊 résolu"


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_where_their_text_is(kind: str) -> None:
    tokenizer = made(kind)
    continuation = Continuation(tokenizer)
    for token in tokenizer.encode(TEXT):
        continuation.add(ScoredToken(token))
    continuation.end()
    assert continuation.text == tokenizer.decode(tokenizer.encode(TEXT))
    offsets = [token.offset for token in continuation.tokens]
    if continuation.text == TEXT:
        assert offsets == [begin for _, begin, _ in tokenizer.spans(TEXT)]
    for token in continuation.tokens:
        if token.text in TEXT:  # no part of a character, no space that the text has not
            assert continuation.text[token.offset :].startswith(token.text)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_those_of_the_text_after_a_prompt(kind: str) -> None:
    tokenizer = made(kind)
    prompt, ids = tokenizer.encode("A dog"), tokenizer.encode("the grass 🦊")
    continuation = Continuation(tokenizer, prompt, 5, len(ids))
    pieces = []
    for token in ids:
        continuation.add(ScoredToken(token))
        text, tokens = continuation.take()
        pieces.append(text)
        assert all(token.offset < 5 + len(continuation.text) for token in tokens)
    continuation.end()
    assert "".join([*pieces, continuation.take()[0]]) == tokenizer.decode_after(prompt)(ids)
    assert continuation.finish_reason == "length"
    assert len(continuation.tokens) == len(ids)
