"""A local window: a word looks at its neighbours only, so that the cost grows with the length.

    i may look at j where |i − j| ≤ size and dilation divides i − j; in a decoder, never ahead

Computed in blocks of queries in a row, with the keys that any of them may see: piece by piece on a
processor, which takes them from where they are; elsewhere, and where a bias is added, all blocks of
all rows as one batch for the fused kernel. Nothing of the size T × S is ever made. Words that are
`dilation` apart see only one another: they are a row of their own, of which the window is the plain
one.

Rows:   x (B, H, S, K) → (R, L, H, K)            R = B · dilation, L = S / dilation
Blocks: queries (N, H, block, K), keys (N, H, before + block + after, K)      N = R · L / block
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from regard.attention import reference
from regard.attention.cache import SLACK, KeyValues
from regard.attention.fused import fused
from regard.attention.kind import ALL, Attention, AttentionSpec
from regard.attention.masks import Causal, View, Window
from regard.attention.pieces import AT_ONCE, InARow, Piece, hiding, look, suits
from regard.positions.sites import InAttention, Sizes

BLOCKS = (32, 64)  # queries at a time, at least and at most


class Windowed(Attention):
    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.window = Window(size, dilation)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention) -> Tensor:
        cut = Blocks.of(self.window, view)
        if k.size(2) <= cut.reach * cut.dilation:  # one block would hold them all
            return fused(q, k, v, self._narrowed(view), position)
        if suits(q, view, position):
            return look(q, k, v, Neighbours(cut, self._narrowed(view), len(q)))
        # What nobody sees any more goes, and the rest of the past asks too, to nobody's use.
        words = q.size(2)
        seen = min(k.size(2), words + self.window.size)
        q, k, v = F.pad(q, (0, 0, seen - words, 0)), k[:, :, -seen:], v[:, :, -seen:]
        near = cut.view(self._narrowed(view.of_last(seen)), len(q))
        found = fused(cut.queries(q), cut.keys(k), cut.keys(v), near, position)
        return cut.joined(found, len(q))[:, :, seen - words : seen]

    def explain(
        self, q: Tensor, k: Tensor, v: Tensor, view: View, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """The weights are dense, with zeros outside the window."""
        return reference.explain(q, k, v, self._narrowed(view), position)

    def scores(self, q: Tensor, k: Tensor, view: View, position: InAttention) -> Tensor:
        return reference.scores(q, k, self._narrowed(view), position)

    def visible(self, view: View) -> Tensor | None:
        return self._narrowed(view).visible

    def remember(self, past: KeyValues | None, new: KeyValues) -> KeyValues:
        """The window before the new words, and some slack for words to be taken back."""
        if past is None:
            return new
        needed = past.between(max(0, past.end - self.window.size), past.end)
        return past.last(needed.keys.size(2) + SLACK).append(new)

    def _narrowed(self, view: View) -> View:
        if self.window.dilation == 1 and len(view.keys) <= self.window.size:
            return view  # the window is larger than the sequence
        return view.within(self.window)


@dataclass(frozen=True)
class Blocks:
    """How sequences are cut up."""

    before: int  # keys that the first query of a block sees before itself
    after: int
    block: int
    dilation: int

    @classmethod
    def of(cls, window: Window, view: View) -> "Blocks":
        each_way = window.size // window.dilation
        after = 0 if isinstance(view.structure, Causal) else each_way
        # Small blocks take the same keys more often, large ones look at more in vain.
        least, most = BLOCKS
        block = min(most, max(least, each_way // 2 // least * least))
        return cls(each_way, after, block, window.dilation)

    @property
    def reach(self) -> int:
        """The keys of a block."""
        return self.before + self.block + self.after

    def queries(self, x: Tensor) -> Tensor:
        rows = self._rows(x)
        return rows.reshape(-1, self.block, *rows.shape[2:]).transpose(1, 2)

    def keys(self, x: Tensor) -> Tensor:
        """Rows stand one behind the other; whatever of a neighbour comes into view is hidden."""
        line = F.pad(self._rows(x).flatten(0, 1), (0, 0, 0, 0, self.before, self.after))
        return line.unfold(0, self.reach, self.block).transpose(2, 3)

    def joined(self, found: Tensor, batch: int) -> Tensor:
        """From (N, H, block, K) to (B, H, S, K), S filled up to whole blocks."""
        heads, size = found.size(1), found.size(3)
        rows = found.transpose(1, 2).reshape(batch, self.dilation, -1, heads, size)
        return rows.transpose(1, 2).flatten(1, 2).transpose(1, 2)

    def view(self, view: View, batch: int) -> View:
        """Who may look at whom within blocks: places count from the first key that one sees."""
        real = view.padding
        if real is None:
            real = torch.ones_like(view.keys, dtype=torch.bool).expand(batch, -1)
        documents = None if view.documents is None else self._beside(view.documents, -1)
        return replace(self.alike(view), padding=self._beside(real, False), documents=documents)

    def alike(self, view: View) -> View:
        """The same for all blocks, as far as structure goes."""
        keys = torch.arange(self.reach, device=view.keys.device) * self.dilation
        return View(view.structure, keys[self.before : self.before + self.block], keys)

    def _beside(self, of_keys: Tensor, nothing: int) -> Tensor:
        """What is known of each key (B, S), block by block: (N, reach)."""
        filled = F.pad(of_keys, (0, -of_keys.size(1) % self._step), value=nothing)
        rows = filled.reshape(len(of_keys), -1, self.dilation).transpose(1, 2).flatten(0, 1)
        edged = F.pad(rows, (self.before, self.after), value=nothing)
        return edged.unfold(1, self.reach, self.block).flatten(0, 1)

    def _rows(self, x: Tensor) -> Tensor:
        filled = F.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, -x.size(2) % self._step))
        apart = filled.reshape(len(x), -1, self.dilation, *filled.shape[2:])
        return apart.transpose(1, 2).flatten(0, 1)

    @property
    def _step(self) -> int:
        return self.block * self.dilation


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The blocks as pieces. Where all keys of a block are there, and none is hidden but by the
    structure, several are one piece; where the text begins or ends there are fewer keys."""

    cut: Blocks
    view: View
    rows: int

    def __iter__(self) -> Iterator[Piece]:
        alike = self.cut.alike(self.view).visible
        assert alike is not None
        hidden = hiding(alike)
        for row in range(self.rows):
            for first in range(self.cut.dilation):
                for begin, blocks in self._runs(first):
                    yield self._piece(row, begin, blocks, alike, hidden)

    def _runs(self, first: int) -> Iterator[tuple[int, int]]:
        """Where pieces of the words first, first + dilation … begin, and of how many blocks."""
        cut, view = self.cut, self.view
        known = view.padding is not None or view.documents is not None
        most = 1 if known else max(1, AT_ONCE // (cut.block * cut.reach))
        step = cut.block * cut.dilation
        begin = first
        while begin < len(view.queries):
            whole = 0
            if self._past + begin >= cut.before * cut.dilation:
                left = len(view.queries) - begin - cut.after * cut.dilation
                whole = min(most, left // step)
            yield begin, max(1, whole)
            begin += max(1, whole) * step

    def _piece(self, row: int, begin: int, blocks: int, alike: Tensor, hidden: Tensor) -> Piece:
        cut, apart, past = self.cut, self.cut.dilation, self._past
        words = len(self.view.queries)
        until = min(words, begin + blocks * cut.block * apart)
        asking = min(cut.block, len(range(begin, until, apart)))  # of each block
        lacking = max(0, cut.before - (past + begin) // apart)
        keys = range(
            past + begin - (cut.before - lacking) * apart,
            min(past + words, past + until + cut.after * apart),
            apart,
        )
        reach = min(len(keys), cut.reach - lacking)
        seen = slice(lacking, lacking + reach)
        places = InARow(slice(keys.start, keys.stop, apart), reach, cut.block)
        queries = slice(begin, until, apart)
        special = self._special(row, slice(past + begin, past + until, apart), places.within)
        if special is None:
            return Piece(row, queries, blocks, places, hidden[:asking, seen])
        visible = alike[:asking, seen] & special
        return Piece(row, queries, blocks, places, hiding(visible), lonely=True)

    def _special(self, row: int, queries: slice, keys: slice) -> Tensor | None:
        """What only these words may see of one another; None where that is no less than alike."""
        padding, documents = self.view.padding, self.view.documents
        real = None if padding is None or padding[row, keys].all() else padding[row, None, keys]
        if documents is None:
            return real
        same = documents[row, queries, None] == documents[row, None, keys]
        return same if real is None else same & real

    @property
    def _past(self) -> int:
        return len(self.view.keys) - len(self.view.queries)


class Spec(AttentionSpec):
    """attention: {kind: window, size: 256, dilation: 1}"""

    honours: ClassVar[frozenset[str]] = ALL - {"cross", "trees"}

    size: int = Field(256, gt=0, description="how far a word looks, back and (no decoder) ahead")
    dilation: int = Field(1, gt=0, description="of those, it sees every so many-th")

    @model_validator(mode="after")
    def _sees_a_neighbour(self) -> Self:
        if self.dilation > self.size:
            raise ValueError(
                f"with dilation {self.dilation} a word sees only itself within size {self.size}: "
                f"give a larger size or a smaller dilation"
            )
        return self

    def build(self, sizes: Sizes) -> Attention:
        return Windowed(self.size, self.dilation)
