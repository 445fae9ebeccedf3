"""BigBird (Zaheer et al. 2020): neighbours, a few words that see and are seen by all, and chance.

By blocks of words. A block looks at those beside it (`window`, its own included), at the first ones
(`global`), and at some that are drawn (`random`); the first look at all. Each word so has the same
number of keys however long the text is, and any two are two steps apart, by way of the first.

Computed as the paper does (its appendix D): the blocks that a block looks at are put side by side,
all blocks of all rows as one batch for the fused kernel; on a CPU by the compiled kernel, which
takes them from where they are. What is drawn depends on the seed and on how many blocks a text has,
not on the texts in its batch; it is the same in all heads.

For encoders: a text that grows would have its blocks drawn anew at each word.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from regard.attention.base import Attention, AttentionSpec
from regard.attention.fused import fused
from regard.attention.masks import AttentionMask, BigBird, Full
from regard.attention.reference import dot_product_attention
from regard.attention.sparse_kernel import TILE, Plan, is_supported, sparse_attention
from regard.errors import ConfigError
from regard.positions.base import InAttention, Sizes


class InBlocks(Attention):
    def __init__(self, block: int, window: int, first: int, random: int, seed: int) -> None:
        super().__init__()
        self.block, self.window, self.first = block, window, first
        self.random, self.seed = random, seed

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> Tensor:
        blocks = self._blocks(k.size(2))
        if self._covers(blocks):
            return fused(q, k, v, mask, position)
        if is_supported(q, mask, position):
            rows = 1 if mask.token_mask is None else len(q)
            return sparse_attention(q, k, v, mask, _plan(self._patterns(mask, rows), k.size(2)))
        which, there = _looked_at(self._patterns(mask, len(q)), blocks)
        which, there = which.to(q.device), there.to(q.device)
        token_mask = self._neighbor_mask(mask, len(q), which, there)  # (N, M · block)
        words = self.first * self.block
        queries = _in_blocks(q, self.block)[:, self.first :].flatten(0, 1).transpose(1, 2)
        beside = _across(which, blocks)
        keys, values = (_in_blocks(x, self.block).flatten(0, 1)[beside] for x in (k, v))
        keys, values = (x.flatten(1, 2).transpose(1, 2) for x in (keys, values))
        numbers = torch.arange(token_mask.size(1), device=q.device)
        near = AttentionMask(Full(), numbers[: self.block], numbers, token_mask)
        found = fused(queries, keys, values, near, position)  # (N, H, block, K)
        rest = found.transpose(1, 2).reshape(len(q), -1, *found.shape[1::2]).transpose(1, 2)
        if not words:
            return rest[:, :, : q.size(2)]
        everywhere = AttentionMask(Full(), mask.queries[:words], mask.keys, mask.token_mask)
        ahead = fused(q[:, :, :words], k, v, everywhere, position)
        return torch.cat([ahead, rest[:, :, : q.size(2) - words]], dim=2)

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """The weights are dense, with zeros where a block does not look."""
        return dot_product_attention(q, k, v, self.dense_mask(mask))

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        found: Tensor = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        visible = self.dense_mask(mask)
        return found if visible is None else found.masked_fill(~visible, float("-inf"))

    def dense_mask(self, mask: AttentionMask) -> Tensor | None:
        """The pattern of a row is that of its own length."""
        if self._covers(self._blocks(len(mask.keys))):
            return mask.dense
        places = mask.queries[:, None], mask.keys[None, :]
        pattern = torch.stack([each.allows(*places) for each in self._patterns(mask, 1)])[:, None]
        return pattern if mask.dense is None else pattern & mask.dense

    def _blocks(self, length: int) -> int:
        return -(-length // self.block)

    def _covers(self, blocks: int) -> bool:
        """Whether so few blocks all look at all."""
        return blocks <= self.first + self.window // 2 + 1 + self.random

    def _pattern(self, length: int) -> BigBird:
        blocks = self._blocks(length)
        return BigBird(self.block, self.window, self.first, self.random, self.seed, blocks)

    def _patterns(self, mask: AttentionMask, rows: int) -> tuple[BigBird, ...]:
        """Of each row, by its own length; without padding all are alike."""
        return tuple(self._pattern(length) for length in _lengths(mask, rows))

    def _words(self, mask: AttentionMask, batch: int) -> Tensor:
        """Which keys are words: (B, S)."""
        if mask.token_mask is not None:
            return mask.token_mask
        return torch.ones_like(mask.keys, dtype=torch.bool).expand(batch, -1)

    def _neighbor_mask(
        self, mask: AttentionMask, batch: int, which: Tensor, there: Tensor
    ) -> Tensor:
        """Whether the keys of the blocks looked at are words: (N, M · block)."""
        token_mask = self._words(mask, batch)
        rows = F.pad(token_mask, (0, -token_mask.size(1) % self.block)).reshape(
            batch, -1, self.block
        )
        found = rows.flatten(0, 1)[_across(which, rows.size(1))]  # (N, M, block)
        return (found & there.flatten(0, 1)[..., None]).flatten(1)


def _looked_at(patterns: Sequence[BigBird], blocks: int) -> tuple[Tensor, Tensor]:
    """The blocks (B, blocks − first, M) that each behind the first looks at, and whether there is
    one; blocks are those of the longest row."""
    of = patterns[0]
    own = torch.arange(of.first, blocks)[:, None]
    first = torch.arange(of.first).expand(len(own), -1)
    near = own + torch.arange(of.window) - of.window // 2
    near = near.masked_fill((near < of.first) | (near >= blocks), -1)
    drawn = [
        F.pad(each.drawn, (0, 0, 0, blocks - len(each.drawn)), value=-1)[of.first :]
        for each in patterns
    ]
    same = torch.cat([first, near], dim=1).expand(len(patterns), -1, -1)
    which = torch.cat([same, torch.stack(drawn)], dim=2)
    return which.clamp(min=0), which >= 0


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # whoever asks first, others may learn by it
def _plan(patterns: Sequence[BigBird], words: int) -> Plan:
    """Tiles of each block: of the first, that look at all, and of the others, with a stretch for
    each block they look at."""
    first, block = patterns[0].first, patterns[0].block
    blocks = -(-words // block)
    which, there = _looked_at(patterns, blocks)
    begin = which * block
    end = torch.where(there, (begin + block).clamp(max=words), begin)
    keys = F.pad(torch.stack([begin, end], -1), (0, 0, 0, 0, first, 0))  # (R, blocks, M, 2)
    keys[:, :first, 0, 1] = words
    begin = (torch.arange(blocks)[:, None] * block + torch.arange(0, block, TILE)).flatten()
    begin = begin[begin < words]
    own = begin // block
    end = torch.minimum(begin + TILE, (own + 1) * block).clamp(max=words)
    return Plan(torch.stack([begin, end], 1).int(), keys[:, own].int())


def _in_blocks(x: Tensor, block: int) -> Tensor:
    """From (B, H, S, K) to (B, blocks, block, H, K), filled up at the end."""
    filled = F.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, -x.size(2) % block))
    return filled.reshape(len(x), -1, block, *filled.shape[2:])


def _across(which: Tensor, blocks: int) -> Tensor:
    """Blocks of rows (B, …, M) by number where all rows stand one behind the other: (N, M)."""
    begin = torch.arange(len(which), device=which.device) * blocks
    return (which + begin[:, None, None]).flatten(0, 1)


def _lengths(mask: AttentionMask, batch: int) -> list[int]:
    """How long each row is, padding at its end left off; without padding, all are alike."""
    if mask.token_mask is None:
        return [len(mask.keys)] * batch
    ends = torch.arange(1, len(mask.keys) + 1, device=mask.keys.device)
    lengths: list[int] = (ends * mask.token_mask).amax(1).tolist()
    return lengths


class Spec(AttentionSpec):
    """attention: {kind: bigbird, block: 64, window: 3, global: 2, random: 3, seed: 0}"""

    supports: ClassVar[frozenset[str]] = frozenset({"padding"})

    block: int = Field(64, gt=0, description="words in a block")
    window: int = Field(3, gt=0, description="blocks beside one another that a block sees; odd")
    first: int = Field(
        2, ge=0, alias="global", description="the first so many blocks see all and are seen by all"
    )
    random: int = Field(3, ge=0, description="blocks drawn by chance that a block sees as well")
    seed: int = Field(0, ge=0, description="of that chance")

    @model_validator(mode="after")
    def _own_block_in_the_middle(self) -> Self:
        if self.window % 2 == 0:
            raise ValueError(
                f"window {self.window} is even: a block sees as many on its left as on its right, "
                f"and itself; choose {self.window + 1}"
            )
        return self

    def build(self, sizes: Sizes) -> Attention:
        if self.first and (self.first - 1) * self.block >= sizes.max_length:
            raise ConfigError(
                f"model.attention.global: {self.first} blocks of {self.block} words reach past the "
                f"{sizes.max_length} that model.max_length allows; give fewer or smaller blocks."
            )
        return InBlocks(self.block, self.window, self.first, self.random, self.seed)
