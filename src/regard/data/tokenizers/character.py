"""A piece for each character of the training text; others are spelt in bytes. Nothing is lost."""

from collections.abc import Iterable, Sequence

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizers import TokenizerSpec
from regard.data.tokenizers.assembly import finish, first_pieces, spelling, whole


class Spec(TokenizerSpec):
    """tokenizer: character"""

    def train(self, lines: Iterable[str], marks: Sequence[str] = ()) -> Tokenizer:
        characters: set[str] = set()
        for line in lines:
            characters.update(line)
        backend = whole()
        backend.model = spelling([*first_pieces(marks), *sorted(characters)])
        return finish(backend, marks)
