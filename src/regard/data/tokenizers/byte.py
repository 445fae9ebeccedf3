"""Bytes of UTF-8 as tokens (as in ByT5, Xue et al. 2022): no training, lossless."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.pipeline import (
    byte_fallback_bpe,
    finalize,
    initial_vocabulary,
    raw_backend,
)
from regard.data.tokenizers.tokenizer import Tokenizer


class Spec(TokenizerSpec):
    """tokenizer: byte"""

    needs_text: ClassVar[bool] = False

    def train(
        self,
        lines: Iterable[str] = (),
        special_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        backend = raw_backend()
        backend.model = byte_fallback_bpe(initial_vocabulary(special_tokens))
        return finalize(backend, special_tokens)
