"""Attention in a terminal: for each query token, the key with the largest weight, head by head.

The page shows every weight; eighty columns hold only the largest ones. The console decides whether
there are colors.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.align import AlignMethod
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from regard.insight.panels.base import EXPERTS, Panel
from regard.insight.picture import HEAD_COLORS, Picture

# Tokens are truncated to fit, but never shorter than this: less cannot be recognized.
SHORTEST_TOKEN = 6
LONGEST_TOKEN = 16
# " 0.81" after the token, and one column of padding on each side.
WEIGHT_WIDTH = 5 + 2


def render(picture: Picture, panel: str | Panel, layer: int | None = None) -> Strongest:
    """Return one layer of one panel for a rich console; `layer` is an index, by default the last.

    Raises LookupError where the picture has no such panel, or the panel has no such layer.
    """
    shown = picture.panel(panel) if isinstance(panel, str) else panel
    if layer is None:
        layer = shown.layers - 1
    if not 0 <= layer < shown.layers:
        raise LookupError(f"{shown.title}: there is no layer {layer + 1} of {shown.layers}")
    return Strongest(shown, layer)


@dataclass(frozen=True)
class Labels:
    """The first column of a table: all lines are equally wide."""

    head: str
    rows: list[str]

    @property
    def width(self) -> int:
        return cell_len(self.head)

    def table(self) -> Table:
        """Return a table that has this column."""
        table = Table(box=None, padding=(0, 1), pad_edge=True)
        table.add_column(Text(self.head), no_wrap=True)
        return table


@dataclass(frozen=True)
class Strongest:
    """A table of the largest weights, as wide as the console allows."""

    panel: Panel
    layer: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.assemble(
            (_printable(self.panel.title), "bold"),
            f", layer {self.layer + 1} of {self.panel.layers}",
        )
        yield Text(self._explanation(), style="dim")
        if self.panel.name.startswith(EXPERTS):
            yield self._experts()
            return
        heads, token_width, labels = self._fit(options.max_width)
        yield self._table(heads, token_width, labels)
        if heads < self.panel.heads:
            yield Text(self._left_out(heads, options.max_width), style="dim")

    def _explanation(self) -> str:
        if self.panel.name.startswith("influence"):
            return "the input token with the largest gradient for each output, and its share"
        if self.panel.name.startswith(EXPERTS):
            return "the experts that each token is routed to, and their gate weights"
        if self.panel.predicts:
            return "the token predicted next, the key that each query attends to most, its weight"
        return "the key that each query attends to most, and its weight"

    def _fit(self, width: int) -> tuple[int, int, Labels]:
        """Return how many heads fit, how wide their tokens may be, and the labels of the rows.

        Tokens are truncated before heads are left out: a truncated token can still be recognized.
        """
        longest = min(_longest(self.panel.keys), LONGEST_TOKEN)
        shortest = min(longest, SHORTEST_TOKEN)
        for labels in (self._labels(LONGEST_TOKEN), self._labels(SHORTEST_TOKEN)):
            space = width - labels.width - 2
            # One column more than there are heads: the mean.
            width_of_one = space // (self.panel.heads + 1) - WEIGHT_WIDTH
            if width_of_one >= shortest:
                return self.panel.heads, min(width_of_one, longest), labels
        heads = max(space // (shortest + WEIGHT_WIDTH) - 1, 0)
        width_of_one = space // (heads + 1) - WEIGHT_WIDTH
        return heads, max(min(width_of_one, longest), 1), labels

    def _labels(self, most: int) -> Labels:
        """Return each query and the token predicted after it, of at most so many columns each."""
        queries = _column("token", self.panel.queries, most, align="right")
        if not self.panel.predicts:
            return Labels(queries[0], queries[1:])
        predicts = _column("next", self.panel.predicts, most, align="left")
        lines = [" ".join(pair) for pair in zip(queries, predicts, strict=True)]
        return Labels(lines[0], lines[1:])

    def _table(self, heads: int, token_width: int, labels: Labels) -> Table:
        weights = self.panel.weights[self.layer]
        table = labels.table()
        table.add_column("mean", no_wrap=True)
        for head in range(heads):
            table.add_column(f"head {head + 1}", no_wrap=True, style=_color(head))
        average = weights.mean(axis=0)
        for query, label in enumerate(labels.rows):
            rows = [average[query], *weights[:heads, query]]
            table.add_row(Text(label), *(self._strongest(row, token_width) for row in rows))
        return table

    def _experts(self) -> Table:
        """Return the experts with a weight above 0 for each token, largest first."""
        labels = self._labels(LONGEST_TOKEN)
        table = labels.table()
        table.add_column("experts")
        for label, row in zip(labels.rows, self.panel.weights[self.layer, 0], strict=True):
            best = [key for key in np.argsort(-row, kind="stable") if row[key] > 0]
            named = "   ".join(f"{self.panel.keys[key]} {row[key]:.2f}" for key in best)
            table.add_row(Text(label), Text(named))
        return table

    def _strongest(self, row: npt.NDArray[np.float32], token_width: int) -> Text:
        if not row.any():
            return Text("–", style="dim")
        key = int(row.argmax())
        token = set_cell_size(_truncated(self.panel.keys[key], token_width).plain, token_width)
        return Text(f"{token} {row[key]:.2f}")

    def _left_out(self, heads: int, width: int) -> str:
        first, last = heads + 1, self.panel.heads
        which = f"head {last} does" if first == last else f"heads {first} to {last} do"
        return f"{which} not fit in {width} columns; a wider terminal or the page shows all"


def _color(head: int) -> str:
    return HEAD_COLORS[head % len(HEAD_COLORS)]


def _longest(tokens: tuple[str, ...]) -> int:
    return max((cell_len(_printable(token)) for token in tokens), default=1)


def _column(head: str, tokens: tuple[str, ...], most: int, align: AlignMethod) -> list[str]:
    """Return a heading and tokens, padded and truncated to the same width."""
    width = min(_longest((head, *tokens)), max(most, len(head)))
    lines = [_truncated(token, width) for token in (head, *tokens)]
    for line in lines:
        line.align(align, width)
    return [line.plain for line in lines]


def _truncated(token: str, width: int) -> Text:
    text = Text(_printable(token))
    text.truncate(width, overflow="ellipsis")
    return text


def _printable(token: str) -> str:
    """Return a token without control characters, which a terminal would execute."""
    return "".join("·" if unicodedata.category(char) == "Cc" else char for char in token)
