"""Attention in a terminal: for each word, the word it looks at most, head by head.

The page shows every weight; eighty columns hold only the strongest ones, so that is what this
shows. Colours, and whether there are any, are the console's business.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from regard.insight.picture import EXPERTS, HEAD_COLOURS, Panel, Picture

# Words are cut to fit, but never shorter than this: less cannot be recognised any more.
SHORTEST_WORD = 6
LONGEST_WORD = 16
# " 0.81" after the word, and one column of air on each side.
BESIDE_WORD = 5 + 2


def render(picture: Picture, panel: str | Panel, layer: int | None = None) -> Strongest:
    """Return one layer of one panel for a rich console; `layer` is an index, by default the last.

    Raises LookupError where the picture has no such panel, or the panel no such layer.
    """
    chosen = picture.panel(panel) if isinstance(panel, str) else panel
    if layer is None:
        layer = chosen.layers - 1
    if not 0 <= layer < chosen.layers:
        raise LookupError(f"{chosen.title}: there is no layer {layer + 1} of {chosen.layers}")
    return Strongest(chosen, layer)


@dataclass(frozen=True)
class Strongest:
    """A table of the strongest weights that is as wide as the console allows."""

    panel: Panel
    layer: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble(
            (_printable(self.panel.title), "bold"),
            f", layer {self.layer + 1} of {self.panel.layers}",
        )
        yield Text(self._said(), style="dim")
        if self.panel.name.startswith(EXPERTS):
            yield self._chosen()
            return
        heads, word_width = self._fit(options.max_width)
        yield self._table(heads, word_width)
        if heads < self.panel.heads:
            yield Text(self._left_out(heads, options.max_width), style="dim")

    def _said(self) -> str:
        if self.panel.name.startswith("influence"):
            return "the word that moves what is said there most, and how much"
        if self.panel.name.startswith(EXPERTS):
            return "the experts that each word was given to, and how much of the answer is theirs"
        return "the word each word looks at most, and how much"

    def _fit(self, width: int) -> tuple[int, int]:
        """Return how many heads fit and how wide their words may be.

        Shorter words come first, fewer heads second: a cut word still says which one it is.
        """
        longest = min(_longest(self.panel.keys), LONGEST_WORD)
        shortest = min(longest, SHORTEST_WORD)
        space = width - self._query_width() - 2
        # One column more than there are heads: the mean.
        each = space // (self.panel.heads + 1) - BESIDE_WORD
        if each >= shortest:
            return self.panel.heads, min(each, longest)
        heads = max(space // (shortest + BESIDE_WORD) - 1, 0)
        each = space // (heads + 1) - BESIDE_WORD
        return heads, max(min(each, longest), 1)

    def _query_width(self) -> int:
        return min(_longest(self.panel.queries), LONGEST_WORD)

    def _table(self, heads: int, word_width: int) -> Table:
        weights = self.panel.weights[self.layer]
        table = Table(box=None, padding=(0, 1), pad_edge=True)
        table.add_column("word", justify="right", no_wrap=True)
        table.add_column("mean", no_wrap=True)
        for head in range(heads):
            table.add_column(f"head {head + 1}", no_wrap=True, style=_colour(head))
        average = weights.mean(axis=0)
        for query, word in enumerate(self.panel.queries):
            rows = [average[query], *weights[:heads, query]]
            cells = [self._strongest(row, word_width) for row in rows]
            table.add_row(_cut(word, self._query_width()), *cells)
        return table

    def _chosen(self) -> Table:
        """All that have a say about a word, best first: they are few, however many there are."""
        table = Table(box=None, padding=(0, 1), pad_edge=True)
        table.add_column("word", justify="right", no_wrap=True)
        table.add_column("experts")
        for word, row in zip(self.panel.queries, self.panel.weights[self.layer, 0], strict=True):
            best = [key for key in np.argsort(-row, kind="stable") if row[key] > 0]
            named = "   ".join(f"{self.panel.keys[key]} {row[key]:.2f}" for key in best)
            table.add_row(_cut(word, self._query_width()), Text(named))
        return table

    def _strongest(self, row: npt.NDArray[np.float32], word_width: int) -> Text:
        if not row.any():
            return Text("–", style="dim")
        key = int(row.argmax())
        word = set_cell_size(_cut(self.panel.keys[key], word_width).plain, word_width)
        return Text(f"{word} {row[key]:.2f}")

    def _left_out(self, heads: int, width: int) -> str:
        first, last = heads + 1, self.panel.heads
        which = f"head {last} does" if first == last else f"heads {first} to {last} do"
        return f"{which} not fit in {width} columns; a wider terminal or the page shows all"


def _colour(head: int) -> str:
    return HEAD_COLOURS[head % len(HEAD_COLOURS)]


def _longest(words: tuple[str, ...]) -> int:
    return max((cell_len(_printable(word)) for word in words), default=1)


def _cut(word: str, width: int) -> Text:
    text = Text(_printable(word))
    text.truncate(width, overflow="ellipsis")
    return text


def _printable(word: str) -> str:
    """Return `word` without control characters, which could steer the terminal."""
    return "".join("·" if unicodedata.category(sign) == "Cc" else sign for sign in word)
