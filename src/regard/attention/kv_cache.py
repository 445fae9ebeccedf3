"""Keys and values as state: they go in, come out longer, and can be reordered."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from regard.errors import ConfigError


class LayerCache(Protocol):
    """What a layer keeps of the words so far, whatever that is."""

    def truncate(self, length: int) -> Self: ...

    def reorder(self, rows: Tensor) -> Self: ...


# Kinds that do not keep all words keep so many more than they look at: all that are taken back.
ROLLBACK_TOKENS = 64


class KVCache(NamedTuple):
    """What a sequence offers to be looked at: keys and values, (B, H, S, K) each."""

    keys: Tensor
    values: Tensor
    offset: int = 0  # earlier places that are kept no more

    @property
    def end(self) -> int:
        """How many places there have been, those that are forgotten included."""
        return self.offset + self.keys.size(2)

    def append(self, new: "KVCache") -> "KVCache":
        keys = torch.cat([self.keys, new.keys], dim=2)
        return KVCache(keys, torch.cat([self.values, new.values], dim=2), self.offset)

    def slice(self, start: int, end: int) -> "KVCache":
        """The places from `start` up to `end`, counted from the first that ever was."""
        first, last = start - self.offset, end - self.offset
        if first < 0:
            raise ConfigError(
                f"token {start} is needed, but the cache of this attention starts at token "
                f"{self.offset}: it can roll back {ROLLBACK_TOKENS} tokens; draft fewer at a time."
            )
        return KVCache(self.keys[:, :, first:last], self.values[:, :, first:last], start)

    def last(self, count: int) -> "KVCache":
        """Only the last so many places; the others are forgotten."""
        return self.slice(max(self.offset, self.end - count), self.end)

    def repeat_kv(self, heads: int) -> "KVCache":
        """Each head as many times in a row as there are more heads of queries to ask."""
        times = heads // self.keys.size(1)
        if times == 1:
            return self
        keys, values = (each.repeat_interleave(times, dim=1) for each in self[:2])
        return KVCache(keys, values, self.offset)

    def truncate(self, length: int) -> "KVCache":
        """The first `length` places."""
        return self.slice(min(self.offset, length), length)

    def reorder(self, rows: Tensor) -> "KVCache":
        """The rows of the batch named by index: for beams, and for leaving finished ones out."""
        keys, values = (each.index_select(0, rows) for each in self[:2])
        return KVCache(keys, values, self.offset)


class CompressedCache(NamedTuple):
    """The last words as they are, and what was made of those that they have forgotten."""

    before: Tensor  # (B, H, …)
    recent: KVCache

    def append(self, new: KVCache) -> "CompressedCache":
        return CompressedCache(self.before, self.recent.append(new))

    def truncate(self, length: int) -> "CompressedCache":
        return CompressedCache(self.before, self.recent.truncate(length))

    def reorder(self, rows: Tensor) -> "CompressedCache":
        return CompressedCache(self.before.index_select(0, rows), self.recent.reorder(rows))


def compress_prefix(
    past: KVCache | CompressedCache, block: int, added: Callable[[Tensor | None, KVCache], Tensor]
) -> KVCache | CompressedCache:
    """All but the last words, in whole blocks, added to what was made of those before them.

    It is done when more words come, not when these did: in training, none ever do.
    """
    before, recent = past if isinstance(past, CompressedCache) else (None, past)
    border = (recent.end - ROLLBACK_TOKENS) // block * block
    if border <= recent.offset:
        return past
    old = recent.slice(recent.offset, border)
    return CompressedCache(added(before, old), recent.slice(border, recent.end))
