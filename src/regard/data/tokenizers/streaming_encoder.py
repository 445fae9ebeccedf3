"""Encoding of running text in chunks: the same ids as if all of it were encoded at once.

The pieces of a text depend on the text around it: a tokenizer may put a space before a text, or
merge blank lines. So the last line of a chunk is kept until the next chunk, and each chunk is
encoded behind the last line of the one before.
"""

from regard.data.tokenizers.tokenizer import Tokenizer


class StreamingEncoder:
    """Encodes one text, chunk by chunk."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._context, self._pending = "", ""  # the last encoded line, and text not yet encoded

    def add(self, text: str) -> list[int]:
        """Add a chunk and return the ids that following text can no longer change."""
        self._pending += text
        return self._encode_until(len(self._context) + _last_line(self._pending))

    def finish(self) -> list[int]:
        """Return the remaining ids."""
        return self._encode_until(len(self._context) + len(self._pending))

    def _encode_until(self, edge: int) -> list[int]:
        """Return the ids of the pending text before `edge`, counted from the context's start."""
        done, text = len(self._context), self._context + self._pending
        if edge == done:
            return []
        tokens = [
            (token, end)
            for token, start, end in self._tokenizer.spans(text)
            if start >= done and end <= edge
        ]
        if tokens:
            done = tokens[-1][1]
            self._context = text[_last_line(text[:done]) : done]
            self._pending = text[done:]
        return [token for token, _ in tokens]


def _last_line(text: str) -> int:
    """Return where the last line begins that is not blank."""
    return text.rstrip().rfind("\n") + 1
