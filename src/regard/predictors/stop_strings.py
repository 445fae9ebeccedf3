"""Stop strings: text ends before the first of them, while it is still being generated."""

from collections.abc import Sequence


class StopStrings:
    """Pieces of a text up to its first stop string.

    The end of a piece that may be the beginning of a stop string is held back until a later piece
    decides.

    Args:
        strings: Texts that are not empty.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._longest = max(map(len, strings), default=0)
        self._held = ""
        self.reached = False  # a stop string is in the text

    def push(self, piece: str) -> str:
        """Return the text that no later piece can make part of a stop string."""
        text = self._held + piece
        starts = [start for string in self._strings if (start := text.find(string)) >= 0]
        if starts:
            self.reached, self._held = True, ""
            return text[: min(starts)]
        end = self._held_from(text)
        self._held = text[end:]
        return text[:end]

    def flush(self) -> str:
        """Return the text that was held back, after the last piece."""
        held, self._held = self._held, ""
        return held

    def _held_from(self, text: str) -> int:
        """Return the index of the first character that may begin a stop string."""
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if any(string.startswith(text[start:]) for string in self._strings):
                return start
        return len(text)
