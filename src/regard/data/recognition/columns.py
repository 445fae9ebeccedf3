"""Content of a column, recognized from a sample of its cells: text, labels, ids, numbers …"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from regard.data.sources.columns import is_id_column, may_be_labels

MOST = 0.9  # fraction of the cells that must have a content
MIN_LETTERS = 0.5  # fraction of the visible characters of text
MANY_REPEATS = 10  # cells for each distinct one, from which they are categories and no texts
MIN_WORDS = 1.2  # on average, of a text
SPLITS = frozenset({"train", "training", "dev", "valid", "validation", "val", "test", "eval"})

Content = Literal["text", "categories", "id", "numbers", "addresses", "nothing", "signs"]

_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)*([eE][-+]?\d+)?%?")
_ADDRESS = re.compile(
    r"(https?://|www\.|/)\S+|\S+\.(jpe?g|png|gif|wav|mp3|flac|mp4|txt|html?|xml|pdf)", re.IGNORECASE
)


def is_number(cell: str) -> bool:
    """Return True for a cell that is a number and nothing else."""
    return _NUMBER.fullmatch(cell.strip()) is not None


@dataclass(frozen=True)
class Column:
    """A column of a table, or a key of its objects, with a sample of its cells."""

    key: int | str  # in the recipe: a number, or the name in a header, or a key
    name: str  # in the header; empty without one
    cells: Sequence[str]  # a list of texts is joined to one
    lists: Sequence[Sequence[str]] | None = None  # the cells, where they are lists of texts

    def __str__(self) -> str:
        return f"column {self.key}" if isinstance(self.key, int) else f"'{self.key}'"

    @cached_property
    def filled(self) -> list[str]:
        """Cells that are not blank, without spaces around them."""
        return [cell.strip() for cell in self.cells if cell.strip()]

    @cached_property
    def content(self) -> Content:
        """Kind of most of the cells."""
        cells = self.filled
        if len(cells) <= len(self.cells) / 2:
            return "nothing"
        if is_id_column(cells) and all(map(str.isdecimal, cells)):
            return "id"
        if _most(is_number(cell) for cell in cells):
            return "numbers"
        if _most(_ADDRESS.fullmatch(cell) is not None for cell in cells):
            return "addresses"
        if is_id_column(cells):
            return "id"
        if _letters(cells) < MIN_LETTERS:
            return "signs"
        is_repeated = len(set(cells)) * MANY_REPEATS <= len(cells)
        return "categories" if is_repeated and may_be_labels(cells) else "text"

    @property
    def is_text(self) -> bool:
        return self.content == "text"

    @cached_property
    def is_split(self) -> bool:
        """True if the cells name the splits of a data set."""
        return {cell.casefold() for cell in self.filled} <= SPLITS

    @cached_property
    def mean_length(self) -> float:
        """Characters of a cell on average."""
        return sum(map(len, self.cells)) / max(len(self.cells), 1)

    @cached_property
    def mean_words(self) -> float:
        """Words of a cell on average."""
        return sum(len(cell.split()) for cell in self.filled) / max(len(self.filled), 1)

    def unused(self) -> str:
        """Return what the column is, for the message that it is not used."""
        contents = {
            "text": "is another text",
            "categories": "has categories",
            "id": "is an id",
            "numbers": "has numbers",
            "addresses": "has addresses or file names",
            "nothing": "is mostly empty",
            "signs": "has codes or dates",
        }
        if self.is_split:
            return f"{self} names splits"
        if self.is_text and self.mean_words < MIN_WORDS:
            return f"{self} has single words"
        return f"{self} {contents[self.content]}"


def _most(conditions: Iterable[bool]) -> bool:
    values = list(conditions)
    return sum(values) >= MOST * len(values)


def _letters(cells: Sequence[str]) -> float:
    """Return the fraction of letters among the visible characters."""
    text = "".join("".join(cells).split())
    return sum(map(str.isalpha, text)) / max(len(text), 1)
