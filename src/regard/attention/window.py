"""Sliding-window attention: each token attends to nearby tokens, at a cost linear in the length.

    i may attend to j if |i − j| ≤ size and dilation divides i − j; in a decoder, j ≤ i as well

Computed for consecutive queries with the keys that any of them attends to: on a CPU by the compiled
kernel, which reads them in place; elsewhere, and if a bias is added, with all blocks of all rows as
one batch for the fused kernel. No tensor of size T × S is ever allocated. Tokens whose distance is
a multiple of `dilation` attend only to one another: they are a row of their own, with a window
without dilation.

Rows:   x (B, H, S, K) → (R, L, H, K)            R = B · dilation, L = S / dilation
Blocks: queries (N, H, block, K), keys (N, H, before + block + after, K)      N = R · L / block
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from regard.attention.base import ALL_CAPABILITIES, Attention, AttentionSpec
from regard.attention.fused import fused
from regard.attention.kv_cache import ROLLBACK_TOKENS, KVCache
from regard.attention.masks import AttentionMask, Causal, Full, Window
from regard.attention.reference import DenseAttention
from regard.attention.sparse_kernel import TILE, Plan, is_supported, sparse_attention
from regard.positions.base import InAttention, Sizes

BLOCK = 64  # queries at a time, at least


class Windowed(DenseAttention):
    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.window = Window(size, dilation)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        length, blocks = q.size(2), Blocks.of(self.window, mask)
        seen = min(k.size(2), length + self.window.size)
        if seen < k.size(2):  # drop keys that no query attends to
            mask, k, v = mask.last(seen), k[:, :, -seen:], v[:, :, -seen:]
        # Too few pairs are masked for blocks to pay.
        if seen <= (blocks.before + BLOCK + blocks.after) * blocks.dilation:
            return fused(q, k, v, self.narrow(mask), position)
        if is_supported(q, mask, position) and isinstance(mask.pattern, (Causal, Full)):
            plan = _plan(length, seen - length, blocks.before, blocks.after, blocks.dilation)
            return sparse_attention(q, k, v, mask, plan)
        q = F.pad(q, (0, 0, seen - length, 0))  # queries at past positions, dropped below
        near = blocks.mask(self.narrow(mask), len(q))
        output = fused(blocks.queries(q), blocks.keys(k), blocks.keys(v), near, position)
        return blocks.merge(output, len(q))[:, :, seen - length : seen]

    def update_cache(self, past: KVCache | None, new: KVCache) -> KVCache:
        """Cache the window before the new tokens, and some tokens more for rollback."""
        if past is None:
            return new
        needed = past.slice(max(0, past.end - self.window.size), past.end)
        return past.last(needed.keys.size(2) + ROLLBACK_TOKENS).append(new)

    def narrow(self, mask: AttentionMask) -> AttentionMask:
        if self.window.dilation == 1 and len(mask.keys) <= self.window.size:
            return mask  # the window is larger than the sequence
        return mask.and_(self.window)


@dataclass(frozen=True)
class Blocks:
    """The split of sequences into blocks of queries with their keys."""

    before: int  # keys that the first query of a block attends to before itself
    after: int
    block: int
    dilation: int

    @classmethod
    def of(cls, window: Window, mask: AttentionMask) -> "Blocks":
        before = window.size // window.dilation
        after = 0 if isinstance(mask.pattern, Causal) else before
        # Small blocks copy the same keys more often, large ones compute more masked pairs.
        return cls(before, after, max(BLOCK, before), window.dilation)

    @property
    def reach(self) -> int:
        """Number of keys of a block."""
        return self.before + self.block + self.after

    def queries(self, x: Tensor) -> Tensor:
        rows = self._rows(x)
        return rows.reshape(-1, self.block, *rows.shape[2:]).transpose(1, 2)

    def keys(self, x: Tensor) -> Tensor:
        """Return the keys of each block. Rows are concatenated; the mask hides other rows."""
        line = F.pad(self._rows(x).flatten(0, 1), (0, 0, 0, 0, self.before, self.after))
        return line.unfold(0, self.reach, self.block).transpose(2, 3)

    def merge(self, output: Tensor, batch: int) -> Tensor:
        """Reshape (N, H, block, K) to (B, H, S, K), with S padded to whole blocks."""
        heads, size = output.size(1), output.size(3)
        rows = output.transpose(1, 2).reshape(batch, self.dilation, -1, heads, size)
        return rows.transpose(1, 2).flatten(1, 2).transpose(1, 2)

    def mask(self, mask: AttentionMask, batch: int) -> AttentionMask:
        """Return the mask within blocks; positions count from the first key of a block."""
        token_mask = mask.token_mask
        if token_mask is None:
            token_mask = torch.ones_like(mask.keys, dtype=torch.bool).expand(batch, -1)
        documents = None if mask.documents is None else self._by_block(mask.documents, -1)
        return replace(
            self._pattern(mask), token_mask=self._by_block(token_mask, False), documents=documents
        )

    def _pattern(self, mask: AttentionMask) -> AttentionMask:
        """Return the part of the mask that is the same for all blocks."""
        keys = torch.arange(self.reach, device=mask.keys.device) * self.dilation
        return AttentionMask(mask.pattern, keys[self.before : self.before + self.block], keys)

    def _by_block(self, of_keys: Tensor, pad_value: int) -> Tensor:
        """Gather a value of each key (B, S) by block: (N, reach)."""
        padded = F.pad(of_keys, (0, -of_keys.size(1) % self._step), value=pad_value)
        rows = padded.reshape(len(of_keys), -1, self.dilation).transpose(1, 2).flatten(0, 1)
        rows = F.pad(rows, (self.before, self.after), value=pad_value)
        return rows.unfold(1, self.reach, self.block).flatten(0, 1)

    def _rows(self, x: Tensor) -> Tensor:
        padded = F.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, -x.size(2) % self._step))
        rows = padded.reshape(len(x), -1, self.dilation, *padded.shape[2:])
        return rows.transpose(1, 2).flatten(0, 1)

    @property
    def _step(self) -> int:
        return self.block * self.dilation


@lru_cache(maxsize=256)
@torch.inference_mode(False)  # a plan cached by inference is used in training as well
def _plan(length: int, past: int, before: int, after: int, dilation: int) -> Plan:
    """Plan tiles of tokens at steps of `dilation`, each with one range of keys."""
    first = (torch.arange(0, length, TILE * dilation)[:, None] + torch.arange(dilation)).flatten()
    first = first[first < length]
    until = (first + TILE * dilation).clamp(max=length)
    begin = past + first - ((past + first) // dilation).clamp(max=before) * dilation
    end = (past + until + after * dilation).clamp(max=past + length)
    queries, keys = torch.stack([first, until], 1), torch.stack([begin, end], 1)
    return Plan(queries.int(), keys.int()[None, :, None], dilation, before, after)


class Spec(AttentionSpec):
    """attention: {kind: window, size: 256, dilation: 1}"""

    supports: ClassVar[frozenset[str]] = ALL_CAPABILITIES - {"cross", "trees"}

    size: int = Field(
        256,
        gt=0,
        le=1 << 16,
        description="largest distance attended to, both ways; in a decoder, only back",
    )
    dilation: int = Field(1, gt=0, le=1 << 16, description="attend to every so many-th of them")

    @model_validator(mode="after")
    def _reaches_a_neighbor(self) -> Self:
        if self.dilation > self.size:
            raise ValueError(
                f"with dilation {self.dilation} a token attends only to itself within size "
                f"{self.size}: choose a larger size or a smaller dilation"
            )
        return self

    def build(self, sizes: Sizes) -> Attention:
        return Windowed(self.size, self.dilation)
