"""The text that a language model adds to a prompt, while it is generated: pieces, tokens, end."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from regard.predictors.stop_strings import StopStrings
from regard.predictors.stream_text import INCOMPLETE, IncrementalDecoder

if TYPE_CHECKING:
    from regard.data.tokenizers.tokenizer import Tokenizer
    from regard.predictors.scored_tokens import ScoredToken

NEAR = 4  # ids before a token on which its text depends

FinishReason = Literal["stop", "length"]


class Token(BaseModel):
    """A token of a text, with its log-probability.

    The text of a token that is a part of a character is �; that of a special token is its name.
    """

    id: int
    text: str
    log_prob: float | None  # None for the first token of a prompt
    offset: int  # of its first character in prompt and continuation
    top: list[tuple[str, float]] = []


class Continuation:
    """The text of ids that follow others, up to a stop string.

    Args:
        tokenizer: The tokenizer of the model.
        context: Ids before the first.
        offset: Number of characters before the first.
        limit: Maximum number of ids.
        stop: Stop strings.
        describes: Describe the tokens.
    """

    def __init__(
        self,
        tokenizer: "Tokenizer",
        context: Sequence[int] = (),
        offset: int = 0,
        limit: int | None = None,
        stop: Sequence[str] = (),
        describes: bool = True,
    ) -> None:
        self._tokenizer, self._context, self._limit = tokenizer, list(context[-NEAR:]), limit
        self._decoder = IncrementalDecoder(tokenizer.decode_after(context))
        self._stops = StopStrings(stop)
        self._decoded = self._released = offset  # characters up to the end of either text
        self._describes = describes
        self._pending: list[Token] = []  # tokens whose text is held back
        self._log_prob = 0.0
        self._taken = (0, 0)  # characters and tokens
        self.ids: list[int] = []
        self.text = ""
        self.tokens: list[Token] = []

    @property
    def is_stopped(self) -> bool:
        """True if a stop string has ended the text."""
        return self._stops.reached

    @property
    def finish_reason(self) -> FinishReason:
        """The reason of the end: the limit, or the end token or a stop string."""
        return "length" if len(self.ids) == self._limit and not self.is_stopped else "stop"

    @property
    def mean_log_prob(self) -> float:
        """Log-probability of a token, on average."""
        return self._log_prob / len(self.ids) if self.ids else 0.0

    def begin_with(self, text: str, tokens: Sequence[Token]) -> None:
        """Put a text and its tokens before those of the ids."""
        self.text += text
        self.tokens += tokens

    def add(self, token: "ScoredToken") -> None:
        """Append a token."""
        piece = self._decoder.push(token.id)
        if self._describes:
            self._pending.append(self._described(token, len(piece)))
        self.ids.append(token.id)
        self._log_prob += token.log_prob
        self._decoded += len(piece)
        self._release(self._stops.push(piece))

    def end(self) -> None:
        """Release what was held back: no token follows."""
        if not self.is_stopped:
            self._release(self._stops.push(self._decoder.flush()) + self._stops.flush())
        if not self.is_stopped:
            self.tokens += self._pending
        self._pending = []

    def take(self) -> tuple[str, list[Token]]:
        """Return the text and the tokens that were not taken before."""
        characters, tokens = self._taken
        self._taken = len(self.text), len(self.tokens)
        return self.text[characters:], self.tokens[tokens:]

    def _release(self, text: str) -> None:
        """Append to the text, and the tokens that begin in it."""
        self.text += text
        self._released += len(text)
        tokens = [token for token in self._pending if token.offset < self._released]
        self.tokens += tokens
        self._pending = self._pending[len(tokens) :]

    def _described(self, token: "ScoredToken", added: int) -> Token:
        """Return a token with its text and its place.

        Args:
            token: The next token.
            added: Number of characters that it added to the text, those held back before included.
        """
        decode = self._tokenizer.decode_after([*self._context, *self.ids[-NEAR:]])
        own = decode([token.id])
        if self._decoder.holds_back:
            before = added - len(own.removesuffix(INCOMPLETE))
        else:
            before = 0 if INCOMPLETE in own else added - len(own)

        def text_of(id_: int) -> str:
            text = decode([id_]) or self._tokenizer.decode([id_])
            return text or self._tokenizer.pieces([id_])[0]

        return Token(
            id=token.id,
            text=text_of(token.id),
            log_prob=None if math.isnan(token.log_prob) else token.log_prob,
            offset=self._decoded + max(before, 0),
            top=[(text_of(id_), log_prob) for id_, log_prob in token.top],
        )
