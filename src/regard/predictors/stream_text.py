"""Text as it grows: what can be shown of a sentence while its words are still coming."""

from collections.abc import Callable, Iterable, Iterator, Sequence

UNFINISHED = "\ufffd"  # how the beginning of a character of several bytes is shown


def growing(ids: Iterable[int], decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """What each id adds to the text; nothing is shown that a later one might change."""
    said: list[int] = []
    shown = ""
    for word in ids:
        said.append(word)
        text = decode(said)
        if not text.endswith(UNFINISHED) and text.startswith(shown) and len(text) > len(shown):
            yield text[len(shown) :]
            shown = text
    text = decode(said)
    if text.startswith(shown) and len(text) > len(shown):
        yield text[len(shown) :]
