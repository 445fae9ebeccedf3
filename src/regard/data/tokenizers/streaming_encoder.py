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
        self._context = ""  # the last encoded line
        self._pending: list[str] = []  # text not yet encoded
        self._line_ended = False  # whether a line of it has ended, with only blanks after it

    def add(self, text: str) -> list[int]:
        """Add a chunk and return the ids that following text can no longer change.

        Text without the beginning of a line is only stored, so that a long line in many chunks is
        encoded once.
        """
        self._pending.append(text)
        content = text.rstrip()
        begins_line = content and (self._line_ended or "\n" in content)
        ends_line = "\n" in text[len(content) :]
        self._line_ended = ends_line if content else self._line_ended or ends_line
        if not begins_line:
            return []
        pending = "".join(self._pending)
        return self._encode_until(pending, _last_line(pending))

    def finish(self) -> list[int]:
        """Return the remaining ids."""
        pending = "".join(self._pending)
        return self._encode_until(pending, len(pending))

    def _encode_until(self, pending: str, edge: int) -> list[int]:
        """Return the ids of the pending text before `edge`."""
        self._pending = [pending]
        if not edge:
            return []
        done, text = len(self._context), self._context + pending
        tokens = [
            (token, end)
            for token, start, end in self._tokenizer.spans(text)
            if start >= done and end <= done + edge
        ]
        if tokens:
            done = tokens[-1][1]
            self._context = text[_last_line(text[:done]) : done]
            self._pending = [text[done:]]
        return [token for token, _ in tokens]


def _last_line(text: str) -> int:
    """Return where the last line begins that is not blank."""
    return text.rstrip().rfind("\n") + 1
