"""BigBird (Zaheer et al. 2020): block-sparse attention with window, global and random blocks.

The sequence is split into blocks. The queries of a block attend to the blocks around it (`window`,
its own included), to the first blocks (`global`), and to some random blocks (`random`); the global
blocks attend to all. Each token so has the same number of keys however long the text is, and any
two tokens are connected in two steps, through a global block.

Computed as the paper does (its appendix D): the key blocks of each query block are gathered, and
all blocks of all rows are one batch for the fused kernel. On a CPU the compiled kernel reads them
in place. The random blocks depend on the seed and on the number of blocks of a text, not on the
other texts of its batch; they are the same in all heads.

For encoders: a growing text would draw other random blocks with each token.
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


class BigBirdAttention(Attention):
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
        key_blocks, exists = _key_blocks(self._patterns(mask, len(q)), blocks)
        key_blocks, exists = key_blocks.to(q.device), exists.to(q.device)
        token_mask = self._gathered_mask(mask, len(q), key_blocks, exists)  # (N, M · block)
        global_tokens = self.first * self.block
        queries = _in_blocks(q, self.block)[:, self.first :].flatten(0, 1).transpose(1, 2)
        indices = _flat_indices(key_blocks, blocks)
        keys, values = (_in_blocks(x, self.block).flatten(0, 1)[indices] for x in (k, v))
        keys, values = (x.flatten(1, 2).transpose(1, 2) for x in (keys, values))
        numbers = torch.arange(token_mask.size(1), device=q.device)
        near = AttentionMask(Full(), numbers[: self.block], numbers, token_mask)
        output = fused(queries, keys, values, near, position)  # (N, H, block, K)
        rest = output.transpose(1, 2).reshape(len(q), -1, *output.shape[1::2]).transpose(1, 2)
        if not global_tokens:
            return rest[:, :, : q.size(2)]
        everywhere = AttentionMask(Full(), mask.queries[:global_tokens], mask.keys, mask.token_mask)
        global_output = fused(q[:, :, :global_tokens], k, v, everywhere, position)
        return torch.cat([global_output, rest[:, :, : q.size(2) - global_tokens]], dim=2)

    def attend_with_weights(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, position: InAttention
    ) -> tuple[Tensor, Tensor]:
        """Return dense weights, zero where a block does not attend."""
        return dot_product_attention(q, k, v, self.dense_mask(mask))

    def scores(self, q: Tensor, k: Tensor, mask: AttentionMask, position: InAttention) -> Tensor:
        scores: Tensor = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        visible = self.dense_mask(mask)
        return scores if visible is None else scores.masked_fill(~visible, float("-inf"))

    def dense_mask(self, mask: AttentionMask) -> Tensor | None:
        """Return the dense mask; the pattern of each row is that of its own length."""
        if self._covers(self._blocks(len(mask.keys))):
            return mask.dense
        pairs = mask.queries[:, None], mask.keys[None, :]
        allowed = [pattern.allows(*pairs) for pattern in self._patterns(mask, 1)]
        dense = torch.stack(allowed)[:, None]
        return dense if mask.dense is None else dense & mask.dense

    def _blocks(self, length: int) -> int:
        return -(-length // self.block)

    def _covers(self, blocks: int) -> bool:
        """Return True if so few blocks all attend to each other."""
        return blocks <= self.first + self.window // 2 + 1 + self.random

    def _pattern(self, length: int) -> BigBird:
        blocks = self._blocks(length)
        return BigBird(self.block, self.window, self.first, self.random, self.seed, blocks)

    def _patterns(self, mask: AttentionMask, rows: int) -> tuple[BigBird, ...]:
        """Return the pattern of each row, by its own length; without padding all are equal."""
        return tuple(self._pattern(length) for length in _lengths(mask, rows))

    def _token_mask(self, mask: AttentionMask, batch: int) -> Tensor:
        """Return the token mask of the keys (B, S), True = real token."""
        if mask.token_mask is not None:
            return mask.token_mask
        return torch.ones_like(mask.keys, dtype=torch.bool).expand(batch, -1)

    def _gathered_mask(
        self, mask: AttentionMask, batch: int, key_blocks: Tensor, exists: Tensor
    ) -> Tensor:
        """Return the token mask of the gathered key blocks: (N, M · block)."""
        token_mask = self._token_mask(mask, batch)
        rows = F.pad(token_mask, (0, -token_mask.size(1) % self.block)).reshape(
            batch, -1, self.block
        )
        gathered = rows.flatten(0, 1)[_flat_indices(key_blocks, rows.size(1))]  # (N, M, block)
        return (gathered & exists.flatten(0, 1)[..., None]).flatten(1)


def _key_blocks(patterns: Sequence[BigBird], blocks: int) -> tuple[Tensor, Tensor]:
    """Return the key blocks (B, blocks − first, M) of each block after the global ones, and a mask
    of the same shape, True = the key block exists. `blocks` is that of the longest row."""
    shape = patterns[0]
    own = torch.arange(shape.first, blocks)[:, None]
    first = torch.arange(shape.first).expand(len(own), -1)
    near = own + torch.arange(shape.window) - shape.window // 2
    near = near.masked_fill((near < shape.first) | (near >= blocks), -1)
    drawn = [
        F.pad(pattern.drawn, (0, 0, 0, blocks - len(pattern.drawn)), value=-1)[shape.first :]
        for pattern in patterns
    ]
    same = torch.cat([first, near], dim=1).expand(len(patterns), -1, -1)
    key_blocks = torch.cat([same, torch.stack(drawn)], dim=2)
    return key_blocks.clamp(min=0), key_blocks >= 0


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a plan cached by inference is used in training as well
def _plan(patterns: Sequence[BigBird], length: int) -> Plan:
    """Plan the tiles of each block: those of global blocks have one range of all keys, the others
    one range for each key block."""
    first, block = patterns[0].first, patterns[0].block
    blocks = -(-length // block)
    key_blocks, exists = _key_blocks(patterns, blocks)
    begin = key_blocks * block
    end = torch.where(exists, (begin + block).clamp(max=length), begin)
    keys = F.pad(torch.stack([begin, end], -1), (0, 0, 0, 0, first, 0))  # (R, blocks, M, 2)
    keys[:, :first, 0, 1] = length
    begin = (torch.arange(blocks)[:, None] * block + torch.arange(0, block, TILE)).flatten()
    begin = begin[begin < length]
    own = begin // block
    end = torch.minimum(begin + TILE, (own + 1) * block).clamp(max=length)
    return Plan(torch.stack([begin, end], 1).int(), keys[:, own].int())


def _in_blocks(x: Tensor, block: int) -> Tensor:
    """Reshape (B, H, S, K) to (B, blocks, block, H, K), padded at the end."""
    padded = F.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, -x.size(2) % block))
    return padded.reshape(len(x), -1, block, *padded.shape[2:])


def _flat_indices(key_blocks: Tensor, blocks: int) -> Tensor:
    """Map block numbers of rows (B, …, M) to indices into the concatenated rows: (N, M)."""
    begin = torch.arange(len(key_blocks), device=key_blocks.device) * blocks
    return (key_blocks + begin[:, None, None]).flatten(0, 1)


def _lengths(mask: AttentionMask, batch: int) -> list[int]:
    """Return the length of each row without the padding at its end."""
    if mask.token_mask is None:
        return [len(mask.keys)] * batch
    ends = torch.arange(1, len(mask.keys) + 1, device=mask.keys.device)
    lengths: list[int] = (ends * mask.token_mask).amax(1).tolist()
    return lengths


class Spec(AttentionSpec):
    """attention: {kind: bigbird, block: 64, window: 3, global: 2, random: 3, seed: 0}"""

    supports: ClassVar[frozenset[str]] = frozenset({"padding"})

    block: int = Field(64, gt=0, le=1 << 16, description="tokens in a block")
    window: int = Field(
        3, gt=0, description="adjacent blocks that a block attends to, its own in the middle; odd"
    )
    first: int = Field(
        2,
        ge=0,
        le=4096,
        alias="global",
        description="number of first blocks that attend to all and that all attend to",
    )
    random: int = Field(
        3, ge=0, le=4096, description="random blocks that a block attends to as well"
    )
    seed: int = Field(0, ge=0, description="seed of the random blocks")

    @model_validator(mode="after")
    def _own_block_in_the_middle(self) -> Self:
        if self.window % 2 == 0:
            raise ValueError(
                f"window {self.window} is even: a block attends to as many blocks on its left as "
                f"on its right, and to itself; choose {self.window + 1}"
            )
        return self

    def build(self, sizes: Sizes) -> Attention:
        if self.first and (self.first - 1) * self.block >= sizes.max_length:
            raise ConfigError(
                f"model.attention.global: {self.first} blocks of {self.block} tokens exceed the "
                f"{sizes.max_length} that model.max_length allows; choose fewer or smaller blocks."
            )
        return BigBirdAttention(self.block, self.window, self.first, self.random, self.seed)
