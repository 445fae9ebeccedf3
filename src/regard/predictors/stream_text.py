"""Incremental decoding: text from token ids while they are still being generated."""

from collections.abc import Callable, Iterable, Iterator, Sequence

INCOMPLETE = "\ufffd"  # decoded from the first bytes of a character of several bytes


def incremental_decode(ids: Iterable[int], decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """Yield the text that each id adds; text that a later id might change is held back."""
    generated: list[int] = []
    shown = ""
    for token in ids:
        generated.append(token)
        text = decode(generated)
        if not text.endswith(INCOMPLETE) and text.startswith(shown) and len(text) > len(shown):
            yield text[len(shown) :]
            shown = text
    text = decode(generated)
    if text.startswith(shown) and len(text) > len(shown):
        yield text[len(shown) :]
