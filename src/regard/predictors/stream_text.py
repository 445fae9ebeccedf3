"""Incremental decoding: text from token ids while they are still being generated.

Only the last ids are decoded at each step. The text of an id depends on few ids before it: whether
there is one, and the first bytes of a character of several bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

INCOMPLETE = "\ufffd"  # decoded from the first bytes of a character of several bytes
WINDOW = 32  # ids that are decoded together, at most
CONTEXT = 8  # ids that remain when the window moves: more than a character has bytes

Decode = Callable[[Sequence[int]], str]


def incremental_decode(ids: Iterable[int], decode: Decode) -> Iterator[str]:
    """Yield the text that each id adds; text that a later id might change is held back.

    The parts, joined, are the text of all ids.
    """
    window: list[int] = []
    text = shown = ""  # of the window, and the part of it that was yielded
    for token in ids:
        if len(window) >= WINDOW:
            window, shown = _moved(window, text, shown, decode)
        window.append(token)
        text = decode(window)
        complete = text.removesuffix(INCOMPLETE)
        if complete.startswith(shown) and len(complete) > len(shown):
            yield complete[len(shown) :]
            shown = complete
    if text.startswith(shown) and len(text) > len(shown):
        yield text[len(shown) :]


def _moved(window: list[int], text: str, shown: str, decode: Decode) -> tuple[list[int], str]:
    """Return the last ids of a window, and the part of their text that was yielded.

    The first of them must not be in the middle of a character: their text is the end of `text`.
    """
    hidden = len(text) - len(shown)
    for context in range(CONTEXT, len(window)):
        last = decode(window[-context:])
        if len(last) > hidden and text.endswith(last) and text.startswith(shown):
            return window[-context:], last[: len(last) - hidden]
    return window, shown
