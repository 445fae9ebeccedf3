"""Keys and values as state: they go in, come out longer, and can be reordered."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from regard.errors import ConfigError


class Memory(Protocol):
    """What a layer keeps of the words so far, whatever that is."""

    def cut(self, length: int) -> Self: ...

    def reorder(self, rows: Tensor) -> Self: ...


# Kinds that do not keep all words keep so many more than they look at: all that are taken back.
SLACK = 64


class KeyValues(NamedTuple):
    """What a sequence offers to be looked at: keys and values, (B, H, S, K) each."""

    keys: Tensor
    values: Tensor
    forgotten: int = 0  # earlier places that are kept no more

    @property
    def end(self) -> int:
        """How many places there have been, those that are forgotten included."""
        return self.forgotten + self.keys.size(2)

    def append(self, new: "KeyValues") -> "KeyValues":
        keys = torch.cat([self.keys, new.keys], dim=2)
        return KeyValues(keys, torch.cat([self.values, new.values], dim=2), self.forgotten)

    def between(self, start: int, end: int) -> "KeyValues":
        """The places from `start` up to `end`, counted from the first that ever was."""
        first, last = start - self.forgotten, end - self.forgotten
        if first < 0:
            raise ConfigError(
                f"word {start} is looked for and the first {self.forgotten} are forgotten: this "
                f"kind of attention can take back {SLACK} words at once, no more; guess fewer."
            )
        return KeyValues(self.keys[:, :, first:last], self.values[:, :, first:last], start)

    def last(self, count: int) -> "KeyValues":
        """Only the last so many places; the others are forgotten."""
        return self.between(max(self.forgotten, self.end - count), self.end)

    def for_heads(self, heads: int) -> "KeyValues":
        """Each head as many times in a row as there are more heads of queries to ask."""
        times = heads // self.keys.size(1)
        if times == 1:
            return self
        keys, values = (each.repeat_interleave(times, dim=1) for each in self[:2])
        return KeyValues(keys, values, self.forgotten)

    def cut(self, length: int) -> "KeyValues":
        """The first `length` places."""
        return self.between(min(self.forgotten, length), length)

    def reorder(self, rows: Tensor) -> "KeyValues":
        """The rows of the batch named by index: for beams, and for leaving finished ones out."""
        keys, values = (each.index_select(0, rows) for each in self[:2])
        return KeyValues(keys, values, self.forgotten)


class Condensed(NamedTuple):
    """The last words as they are, and what was made of those that they have forgotten."""

    before: Tensor  # (B, H, …)
    recent: KeyValues

    def append(self, new: KeyValues) -> "Condensed":
        return Condensed(self.before, self.recent.append(new))

    def cut(self, length: int) -> "Condensed":
        return Condensed(self.before, self.recent.cut(length))

    def reorder(self, rows: Tensor) -> "Condensed":
        return Condensed(self.before.index_select(0, rows), self.recent.reorder(rows))


def condensed(
    past: KeyValues | Condensed, block: int, added: Callable[[Tensor | None, KeyValues], Tensor]
) -> KeyValues | Condensed:
    """All but the last words, in whole blocks, added to what was made of those before them.

    It is done when more words come, not when these did: in training, none ever do.
    """
    before, recent = past if isinstance(past, Condensed) else (None, past)
    border = (recent.end - SLACK) // block * block
    if border <= recent.forgotten:
        return past
    old = recent.between(recent.forgotten, border)
    return Condensed(added(before, old), recent.between(border, recent.end))
