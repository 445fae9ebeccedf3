"""Tokenizer that ends a canceled request between two texts.

A long text is split into segments that fit the model by encoding thousands of its parts: seconds
that no decoding step interrupts. Requests whose time was over went on, and their memory with them.
"""

from typing import Any

from tokenizers import Encoding

from regard.data.tokenizers.tokenizer import Tokenizer
from regard.serving.tasks.base import current_check


class CancelableTokenizer(Tokenizer):
    """Tokenizer that checks the request of its thread before each text."""

    def _encoding(self, text: str) -> Encoding:
        current_check()()
        return super()._encoding(text)


def make_cancelable(predictor: Any) -> None:
    """Let the tokenizer of a predictor, which many objects refer to, check requests."""
    if type(predictor.tokenizer) is Tokenizer:
        predictor.tokenizer.__class__ = CancelableTokenizer
