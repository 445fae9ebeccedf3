"""A piece for each character of the training text; others are spelt in bytes. Nothing is lost."""

from collections.abc import Iterable, Sequence

from regard.data.tokenizers.assembly import finish, first_pieces, spelling, whole
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer


class Spec(TokenizerSpec):
    """tokenizer: character"""

    def train(self, lines: Iterable[str], special_tokens: Sequence[str] = ()) -> Tokenizer:
        characters: set[str] = set()
        for line in lines:
            characters.update(line)
        backend = whole()
        backend.model = spelling([*first_pieces(special_tokens), *sorted(characters)])
        return finish(backend, special_tokens)
