"""The KV cache: keys and values of earlier tokens as an argument and a return value."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from regard.errors import ConfigError


class LayerCache(Protocol):
    """State that a layer keeps of earlier tokens: a KV cache or another form of it."""

    def truncate(self, length: int) -> Self: ...

    def reorder(self, rows: Tensor) -> Self: ...


# Kinds that evict tokens cache this many more than they attend to, so that drafts can be undone.
ROLLBACK_TOKENS = 64


class KVCache(NamedTuple):
    """Keys and values (B, H, S, K) of a sequence whose first `offset` tokens are evicted."""

    keys: Tensor
    values: Tensor
    offset: int = 0  # number of evicted tokens

    @property
    def end(self) -> int:
        """Number of tokens so far, evicted ones included."""
        return self.offset + self.keys.size(2)

    def append(self, new: "KVCache") -> "KVCache":
        keys = torch.cat([self.keys, new.keys], dim=2)
        return KVCache(keys, torch.cat([self.values, new.values], dim=2), self.offset)

    def slice(self, start: int, end: int) -> "KVCache":
        """Return the tokens from `start` up to `end`, counted from the first token ever cached."""
        first, last = start - self.offset, end - self.offset
        if first < 0:
            raise ConfigError(
                f"token {start} is needed, but the cache of this attention starts at token "
                f"{self.offset}: it can roll back {ROLLBACK_TOKENS} tokens; draft fewer at a time."
            )
        return KVCache(self.keys[:, :, first:last], self.values[:, :, first:last], start)

    def last(self, count: int) -> "KVCache":
        """Evict all but the last `count` tokens."""
        return self.slice(max(self.offset, self.end - count), self.end)

    def repeat_kv(self, heads: int) -> "KVCache":
        """Repeat each head for the query heads that share it (grouped-query attention)."""
        times = heads // self.keys.size(1)
        if times == 1:
            return self
        keys, values = (x.repeat_interleave(times, dim=1) for x in self[:2])
        return KVCache(keys, values, self.offset)

    def truncate(self, length: int) -> "KVCache":
        """Keep the first `length` tokens."""
        return self.slice(min(self.offset, length), length)

    def reorder(self, rows: Tensor) -> "KVCache":
        """Select rows of the batch by index: for beams, and to drop finished rows."""
        keys, values = (x.index_select(0, rows) for x in self[:2])
        return KVCache(keys, values, self.offset)


class CompressedCache(NamedTuple):
    """The last tokens as they are, and a compressed form of the evicted ones."""

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
    """Compress all but the last tokens, in whole blocks, into the prefix.

    Called when new tokens arrive, not when the old ones did: training never compresses.

    Args:
        past: The cache.
        block: Number of tokens that are compressed together.
        added: Returns the prefix, or None if there is none yet, extended by some tokens.
    """
    before, recent = past if isinstance(past, CompressedCache) else (None, past)
    border = (recent.end - ROLLBACK_TOKENS) // block * block
    if border <= recent.offset:
        return past
    old = recent.slice(recent.offset, border)
    return CompressedCache(added(before, old), recent.slice(border, recent.end))
