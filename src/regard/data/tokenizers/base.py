"""Base class of tokenizer kinds: how text is cut into pieces, one file for each kind.

A kind trained here can encode any text: what has no piece is spelled in the bytes of UTF-8. All
such kinds have the same order of pieces, with consecutive ids:

    <pad> <unk> <s> </s> · a tag for each language · <0x00> … <0xFF> · learned pieces
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field
from tokenizers import Tokenizer as Backend
from tokenizers.models import Model

from regard.config import Kind
from regard.data.tokenizers.pipeline import Spaces, finalize, initial_vocabulary, word_backend
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import ConfigError


class TokenizerSpec(Kind, package="regard.data.tokenizers", default="bpe"):
    """A kind of tokenizer."""

    needs_text: ClassVar[bool] = True  # False where there is nothing to learn

    def train(self, lines: Iterable[str], special_tokens: Sequence[str] = ()) -> Tokenizer:
        """Train a tokenizer on lines of text.

        `special_tokens` are names of further special tokens: fr for <fr>, mask for <mask>. The
        lines are iterated once and not kept; the same lines give the same tokenizer.
        """
        raise NotImplementedError

    def restore(self, text: str) -> Tokenizer:
        """Return a tokenizer of this spec from its JSON."""
        return Tokenizer.from_json(text)

    def files(self) -> list[Path]:
        """Return the files that are read: when one changes, prepared data is out of date."""
        return []


class LearnedSpec(TokenizerSpec):
    """A kind that learns pieces up to a vocabulary size, none longer than a word."""

    vocabulary: int = Field(
        8000, ge=300, description="maximum number of pieces: 4 special, tags, 256 bytes, learned"
    )
    spaces: Spaces = Field(
        "collapse",
        description="collapse: one space for any run, accents composed (NFC), for sentences; "
        "keep: every space and newline is restored, for running text",
    )

    def train(self, lines: Iterable[str], special_tokens: Sequence[str] = ()) -> Tokenizer:
        initial = initial_vocabulary(special_tokens)
        if self.vocabulary <= len(initial):
            raise ConfigError(
                f"tokenizer.vocabulary: {self.vocabulary} leaves no piece to learn, because "
                f"{len(initial)} are special tokens, tags and bytes; raise it."
            )
        backend = word_backend(self.spaces)
        backend.model = self.learn(backend, lines, initial, self.vocabulary - len(initial))
        return finalize(backend, special_tokens)

    def learn(
        self, backend: Backend, lines: Iterable[str], initial: Sequence[str], size: int
    ) -> Model:
        """Return a model with the `initial` pieces and at most `size` learned ones."""
        raise NotImplementedError
