"""Byte-pair encoding: the learned merges are applied to the characters of a word."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import models

from regard.data.tokenizers.base import LearnedSpec
from regard.data.tokenizers.bpe_merges import BPEMerges
from regard.data.tokenizers.pipeline import byte_fallback_bpe


class Spec(LearnedSpec):
    """tokenizer: {kind: bpe, vocabulary: 8000}"""

    def learn(
        self, backend: Backend, lines: Iterable[str], initial: Sequence[str], size: int
    ) -> models.Model:
        pieces, merges = BPEMerges(backend, lines, size).first(size)
        return byte_fallback_bpe([*initial, *pieces], merges)
