"""Translation directions."""

from typing import NamedTuple


class Direction(NamedTuple):
    """A translation direction: source and target language."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"
