"""Byte-pair encoding: a word is cut by doing to its characters the merges that were learned."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer as Backend
from tokenizers import models

from regard.data.tokenizers.assembly import spelling
from regard.data.tokenizers.base import LearnedSpec
from regard.data.tokenizers.merging import Merging


class Spec(LearnedSpec):
    """tokenizer: {kind: bpe, vocabulary: 8000}"""

    def learn(
        self, backend: Backend, lines: Iterable[str], first: Sequence[str], room: int
    ) -> models.Model:
        pieces, merges = Merging(backend, lines, room).first(room)
        return spelling([*first, *pieces], merges)
