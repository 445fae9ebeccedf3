"""The 256 bytes of UTF-8 (as in ByT5, Xue et al. 2022): nothing to learn, and nothing is lost."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from regard.data.tokenizers.assembly import finish, first_pieces, spelling, whole
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer


class Spec(TokenizerSpec):
    """tokenizer: byte"""

    needs_text: ClassVar[bool] = False

    def train(
        self,
        lines: Iterable[str] = (),
        special_tokens: Sequence[str] = (),
    ) -> Tokenizer:
        backend = whole()
        backend.model = spelling(first_pieces(special_tokens))
        return finish(backend, special_tokens)
