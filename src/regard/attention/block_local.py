"""Block-local attention (Liu et al. 2018): tokens attend to the tokens of their own block only.

Full attention is computed in each block: time and memory grow with the length times the size of a
block. Tokens of different blocks do not interact here; other layers must connect them
(`alternating`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from regard.attention.base import ALL_CAPABILITIES, Attention, AttentionSpec
from regard.attention.fused import fused
from regard.attention.kv_cache import ROLLBACK_TOKENS, KVCache
from regard.attention.masks import AttentionMask, MaskPattern
from regard.attention.reference import DenseAttention
from regard.errors import ConfigError
from regard.positions.base import InAttention, Sizes


@dataclass(frozen=True)
class SameBlock(MaskPattern):
    """Keys in the same block of `size` tokens."""

    size: int

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return i // self.size == j // self.size


class BlockLocal(DenseAttention):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        blocks = self._blocks(mask)
        queries, keys = zip(*blocks, strict=True)
        # One split: the gradient of a slice of its own per block would have the whole length.
        qkv = zip(_split(q, queries), _split(k, keys), _split(v, keys), strict=True)
        outputs = [
            fused(*tensors, mask.select(*block), position)
            for tensors, block in zip(qkv, blocks, strict=True)
        ]
        return torch.cat(outputs, dim=2)

    def update_cache(self, past: KVCache | None, new: KVCache) -> KVCache:
        return new if past is None else past.last(self.size + ROLLBACK_TOKENS).append(new)

    def narrow(self, mask: AttentionMask) -> AttentionMask:
        return replace(mask, pattern=mask.pattern & SameBlock(self.size))

    def _blocks(self, mask: AttentionMask) -> list[tuple[slice, slice]]:
        """Return the queries and the keys of each block that has a query."""
        first, until = int(mask.queries[0]), int(mask.queries[-1]) + 1
        begin, end = int(mask.keys[0]), int(mask.keys[-1]) + 1
        if begin > first // self.size * self.size:
            raise ConfigError(
                f"attention 'block-local' caches the last block and {ROLLBACK_TOKENS} tokens and "
                f"cannot roll back further: draft fewer tokens at a time."
            )
        return [
            (
                slice(max(start, first) - first, min(start + self.size, until) - first),
                slice(start - begin, min(start + self.size, end) - begin),
            )
            for start in range(first // self.size * self.size, until, self.size)
        ]


def _split(x: Tensor, parts: Sequence[slice]) -> tuple[Tensor, ...]:
    """Split x (B, H, S, K) into consecutive parts."""
    whole = x[:, :, parts[0].start : parts[-1].stop]
    return torch.split(whole, [part.stop - part.start for part in parts], dim=2)


class Spec(AttentionSpec):
    """attention: {kind: block-local, size: 256}"""

    # No documents: blocks count from the start of the row, not of each document.
    supports: ClassVar[frozenset[str]] = ALL_CAPABILITIES - {"cross", "documents", "trees"}

    size: int = Field(256, gt=0, le=1 << 16, description="tokens in a block")

    def build(self, sizes: Sizes) -> Attention:
        return BlockLocal(self.size)
