"""A local window: a word looks at its neighbours only, so that the cost grows with the length.

    i may look at j where |i − j| ≤ size and dilation divides i − j; in a decoder, never ahead

Computed for queries in a row with the keys that any of them may see: on a CPU by the compiled
kernel, which takes them from where they are; elsewhere, and where a bias is added, all blocks of
all rows as one batch for the fused kernel. Nothing of the size T × S is ever made. Words that are
`dilation` apart see only one another: they are a row of their own, of which the window is the plain
one.

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
        words, blocks = q.size(2), Blocks.of(self.window, mask)
        seen = min(k.size(2), words + self.window.size)
        if seen < k.size(2):  # what nobody sees any more goes
            mask, k, v = mask.last(seen), k[:, :, -seen:], v[:, :, -seen:]
        if (
            seen <= (blocks.before + BLOCK + blocks.after) * blocks.dilation
        ):  # little would be hidden
            return fused(q, k, v, self.narrow(mask), position)
        if is_supported(q, mask, position) and isinstance(mask.pattern, (Causal, Full)):
            plan = _plan(words, seen - words, blocks.before, blocks.after, blocks.dilation)
            return sparse_attention(q, k, v, mask, plan)
        q = F.pad(q, (0, 0, seen - words, 0))  # the rest of the past asks too, to nobody's use
        near = blocks.mask(self.narrow(mask), len(q))
        found = fused(blocks.queries(q), blocks.keys(k), blocks.keys(v), near, position)
        return blocks.joined(found, len(q))[:, :, seen - words : seen]

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
    """How sequences are cut up."""

    before: int  # keys that the first query of a block sees before itself
    after: int
    block: int
    dilation: int

    @classmethod
    def of(cls, window: Window, mask: AttentionMask) -> "Blocks":
        each_way = window.size // window.dilation
        after = 0 if isinstance(mask.pattern, Causal) else each_way
        # Small blocks copy the same keys more often, large ones look at more in vain.
        return cls(each_way, after, max(BLOCK, each_way), window.dilation)

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

    def mask(self, mask: AttentionMask, batch: int) -> AttentionMask:
        """Who may look at whom within blocks: places count from the first key that one sees."""
        token_mask = mask.token_mask
        if token_mask is None:
            token_mask = torch.ones_like(mask.keys, dtype=torch.bool).expand(batch, -1)
        documents = None if mask.documents is None else self._beside(mask.documents, -1)
        return replace(
            self.alike(mask), token_mask=self._beside(token_mask, False), documents=documents
        )

    def alike(self, mask: AttentionMask) -> AttentionMask:
        """The same for all blocks, as far as structure goes."""
        keys = torch.arange(self.reach, device=mask.keys.device) * self.dilation
        return AttentionMask(mask.pattern, keys[self.before : self.before + self.block], keys)

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


@lru_cache(maxsize=256)
@torch.inference_mode(False)  # whoever asks first, others may learn by it
def _plan(words: int, past: int, before: int, after: int, apart: int) -> Plan:
    """Tiles of words that are so far apart, each with one stretch of keys."""
    first = (torch.arange(0, words, TILE * apart)[:, None] + torch.arange(apart)).flatten()
    first = first[first < words]
    until = (first + TILE * apart).clamp(max=words)
    begin = past + first - ((past + first) // apart).clamp(max=before) * apart
    end = (past + until + after * apart).clamp(max=past + words)
    queries, keys = torch.stack([first, until], 1), torch.stack([begin, end], 1)
    return Plan(queries.int(), keys.int()[None, :, None], apart, before, after)


class Spec(AttentionSpec):
    """attention: {kind: window, size: 256, dilation: 1}"""

    supports: ClassVar[frozenset[str]] = ALL_CAPABILITIES - {"cross", "trees"}

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
