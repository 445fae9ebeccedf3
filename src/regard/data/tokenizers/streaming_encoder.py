"""Running text to ids, a stretch at a time: the same ids as if all of it were encoded at once.

How a text is cut into pieces at one place depends on what stands around it: a tokeniser may put a
space before a text, or take blank lines together. So the last line of a stretch waits for the next
one, and each stretch is encoded behind the last line of the one before.
"""

from regard.data.tokenizers.tokenizer import Tokenizer


class StreamingEncoder:
    """One text, from its beginning to its end."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._before, self._waiting = "", ""  # a line that is done, and text that is not

    def add(self, text: str) -> list[int]:
        """The next ids, as far as what may follow can no longer change them."""
        self._waiting += text
        return self._settle(len(self._before) + _last_line(self._waiting))

    def finish(self) -> list[int]:
        """The rest of them."""
        return self._settle(len(self._before) + len(self._waiting))

    def _settle(self, edge: int) -> list[int]:
        """The ids of what waits before this place; what is left of it goes on waiting."""
        done, text = len(self._before), self._before + self._waiting
        if edge == done:
            return []
        found = [
            (each, end)
            for each, start, end in self._tokenizer.spans(text)
            if start >= done and end <= edge
        ]
        if found:
            done = found[-1][1]
            self._before = text[_last_line(text[:done]) : done]
            self._waiting = text[done:]
        return [each for each, _ in found]


def _last_line(text: str) -> int:
    """Where the last line begins that is not blank."""
    return text.rstrip().rfind("\n") + 1
