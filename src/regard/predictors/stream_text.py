"""Incremental decoding: text from token ids while they are still being generated.

Only the last ids are decoded at each step. The text of an id depends on few ids before it: whether
there is one, and the first bytes of a character of several bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

INCOMPLETE = "\ufffd"  # decoded from the first bytes of a character of several bytes
WINDOW = 32  # ids that are decoded together, at most
CONTEXT = 8  # ids that remain when the window moves: more than a character has bytes

Decode = Callable[[Sequence[int]], str]


class IncrementalDecoder:
    """Text of a growing sequence of ids; text that a later id might change is held back.

    Args:
        decode: Function that returns the text of ids.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._text = self._shown = ""  # of the window, and the part of it that was returned

    @property
    def holds_back(self) -> bool:
        """True if the last ids are the beginning of a character."""
        return len(self._text) > len(self._shown)

    def push(self, token: int) -> str:
        """Return the text that an id completes; "" if there is none yet."""
        if len(self._window) >= WINDOW:
            self._move_window()
        self._window.append(token)
        self._text = self._decode(self._window)
        return self._show(self._text.removesuffix(INCOMPLETE))

    def flush(self) -> str:
        """Return the text that was held back, after the last id."""
        return self._show(self._text)

    def _show(self, text: str) -> str:
        """Return the end of a text of the window that was not returned before."""
        if not text.startswith(self._shown):
            return ""
        new, self._shown = text[len(self._shown) :], text
        return new

    def _move_window(self) -> None:
        """Drop all but the last ids of the window, and the text of the others.

        The first that remains must not be in the middle of a character: the text of the rest is the
        end of the window's text.
        """
        hidden = len(self._text) - len(self._shown)
        for context in range(CONTEXT, len(self._window)):
            last = self._decode(self._window[-context:])
            is_end = self._text.endswith(last) and self._text.startswith(self._shown)
            if len(last) > hidden and is_end:
                self._window, self._shown = self._window[-context:], last[: len(last) - hidden]
                return


def incremental_decode(ids: Iterable[int], decode: Decode) -> Iterator[str]:
    """Yield the text that each id adds; text that a later id might change is held back.

    The parts, joined, are the text of all ids.
    """
    decoder = IncrementalDecoder(decode)
    for token in ids:
        if part := decoder.push(token):
            yield part
    if part := decoder.flush():
        yield part
