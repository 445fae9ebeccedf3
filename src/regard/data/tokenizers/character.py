"""Characters of the training text as tokens; other characters are spelled in bytes. Lossless."""

from collections.abc import Iterable, Sequence

from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.pipeline import (
    byte_fallback_bpe,
    finalize,
    initial_vocabulary,
    raw_backend,
)
from regard.data.tokenizers.tokenizer import Tokenizer


class Spec(TokenizerSpec):
    """tokenizer: character"""

    def train(self, lines: Iterable[str], special_tokens: Sequence[str] = ()) -> Tokenizer:
        characters: set[str] = set()
        for line in lines:
            characters.update(line)
        backend = raw_backend()
        initial = initial_vocabulary(special_tokens)
        backend.model = byte_fallback_bpe([*initial, *sorted(characters)])
        return finalize(backend, special_tokens)
