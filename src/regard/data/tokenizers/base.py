"""How text is cut into pieces, one file a kind.

A kind made here never meets a text it cannot write: what it has no piece for it spells in the bytes
of UTF-8. The pieces of all such kinds stand in the same order, each id one more than the last:

    <pad> <unk> <s> </s> · a tag for each language · <0x00> … <0xFF> · what was learned
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer as Backend
from tokenizers.models import Model

from regard.config import Kind
from regard.data.tokenizers.assembly import Spaces, cut_at_words, finish, first_pieces
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError


class TokenizerSpec(Kind, package="regard.data.tokenizers", default="bpe"):
    """A kind of tokeniser."""

    needs_text: ClassVar[bool] = True  # False where there is nothing to learn

    def train(self, lines: Iterable[str], special_tokens: Sequence[str] = ()) -> Tokenizer:
        """A tokeniser for text like these lines, with a piece for each mark: a language, a mask.

        The lines are gone through once and not kept; the same lines give the same tokeniser.
        """
        raise NotImplementedError

    def opened(self, text: str) -> Tokenizer:
        """The tokeniser again that was made by this spec and kept as JSON."""
        return Tokenizer.from_json(text)

    def files(self) -> list[Path]:
        """The files that are read: when one changes, what was made of it is out of date."""
        return []


class LearnedSpec(TokenizerSpec):
    """A kind that learns as many pieces as it is given room for, none longer than a word."""

    vocabulary: int = Field(
        8000, ge=300, description="pieces at most: 4 special ones, tags, 256 bytes, and learned"
    )
    spaces: Spaces = Field(
        "collapse",
        description="collapse: one space for any run, accents composed (NFC), for sentences; "
        "keep: every space and newline comes back, for running text",
    )

    def train(self, lines: Iterable[str], special_tokens: Sequence[str] = ()) -> Tokenizer:
        first = first_pieces(special_tokens)
        if self.vocabulary <= len(first):
            raise ConfigError(
                f"tokenizer.vocabulary: {self.vocabulary} pieces leave no room to learn any, for "
                f"{len(first)} are special ones, tags and bytes; raise it."
            )
        backend = cut_at_words(self.spaces)
        backend.model = self.learn(backend, lines, first, self.vocabulary - len(first))
        return finish(backend, special_tokens)

    def learn(
        self, backend: Backend, lines: Iterable[str], first: Sequence[str], room: int
    ) -> Model:
        """The `first` pieces and `room` more at most, learned from lines cut by the backend."""
        raise NotImplementedError
