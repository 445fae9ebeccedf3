"""A canceled request ends while its text is split, which encodes thousands of parts."""

from types import SimpleNamespace

import pytest

from regard.data.tokenizers import bpe
from regard.predictors.segment import split_to_fit
from regard.serving.cancelable_tokenizer import make_cancelable
from regard.serving.tasks.base import Canceled, TaskContext


def test_splitting_a_text_ends_with_its_request() -> None:
    tokenizer = bpe.Spec(vocabulary=300).train(["the cat sleeps"])
    ids = tokenizer.encode("the cat")
    make_cancelable(SimpleNamespace(tokenizer=tokenizer))
    assert tokenizer.encode("the cat") == ids
    calls = []

    def fits(text: str) -> bool:
        calls.append(text)
        if len(calls) == 100:
            context.cancel()
        return len(tokenizer.encode(text)) < 10

    with TaskContext() as context, pytest.raises(Canceled):
        split_to_fit("a" * 10_000, fits)
    assert len(calls) == 100
    assert split_to_fit("a" * 10, lambda text: len(tokenizer.encode(text)) < 100)
