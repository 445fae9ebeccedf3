"""Attention masks. One meaning everywhere: True = the query may attend to the key.

A mask pattern (causal, a window …) is a small frozen predicate over positions; patterns are
combined with & and |. The token mask, the documents and the dependency trees of a batch are kept
beside the pattern. An `AttentionMask` holds all of them for one call; every layer of a model shares
it, so its dense form is computed at most once.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.positions.trees import Trees


class MaskPattern:
    """A predicate over positions: may a query at i attend to a key at j?"""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        raise NotImplementedError

    def __and__(self, other: "MaskPattern") -> "MaskPattern":
        return And(self, other)

    def __or__(self, other: "MaskPattern") -> "MaskPattern":
        return Or(self, other)


@dataclass(frozen=True)
class Full(MaskPattern):
    """Every query attends to every key: encoders and cross-attention."""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return torch.ones_like(i + j, dtype=torch.bool)


@dataclass(frozen=True)
class Causal(MaskPattern):
    """No token attends to later tokens: j ≤ i."""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return j <= i


@dataclass(frozen=True)
class Window(MaskPattern):
    """Keys at most `size` positions away, and of those every `dilation`-th."""

    size: int
    dilation: int = 1

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        near = (i - j).abs() <= self.size
        return near if self.dilation == 1 else near & ((i - j) % self.dilation == 0)


@dataclass(frozen=True)
class BigBird(MaskPattern):
    """Blocks of tokens: a window of blocks, global blocks at the start, and random blocks (Zaheer
    et al. 2020). Which blocks are drawn depends on the number of blocks of the sequence."""

    block: int
    window: int  # blocks, the query block in the middle
    first: int
    random: int
    seed: int
    blocks: int

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        query_block, key_block = i // self.block, j // self.block
        near = (query_block - key_block).abs() <= self.window // 2
        everywhere = torch.minimum(query_block, key_block) < self.first
        drawn = self.drawn.to(i.device)[query_block.clamp(max=self.blocks)]
        return near | everywhere | (drawn == key_block[..., None]).any(-1)

    @property
    def drawn(self) -> Tensor:
        """Random key blocks of each query block (blocks + 1, random); −1 where none is left, and in
        the last row, for queries behind the last block."""
        return _drawn(self.blocks, self.window, self.first, self.random, self.seed)


@lru_cache(maxsize=4096)
def _drawn(blocks: int, window: int, first: int, random: int, seed: int) -> Tensor:
    """Draw without replacement from the blocks outside of the window and the global blocks."""
    own = torch.arange(blocks)
    begin = (own - window // 2).clamp(min=first)
    near = ((own + window // 2 + 1).clamp(max=blocks) - begin).clamp(min=0)
    others = blocks - first - near
    chances = torch.rand(blocks, random, generator=torch.Generator().manual_seed(seed))
    taken = own.new_empty(blocks, 0)  # their ranks among the other blocks, sorted
    drawn = own.new_full((blocks + 1, random), -1)
    for turn, chance in enumerate(chances.T):
        rank = (chance * (others - turn)).long()
        for earlier in taken.T:
            rank = rank + (rank >= earlier)
        left = others > turn
        taken = torch.cat([taken, torch.where(left, rank, blocks)[:, None]], dim=1).sort().values
        block = first + rank
        drawn[:-1, turn] = torch.where(left, block + near * (block >= begin), -1)
    return drawn


@dataclass(frozen=True)
class And(MaskPattern):
    left: MaskPattern
    right: MaskPattern

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return self.left.allows(i, j) & self.right.allows(i, j)


@dataclass(frozen=True)
class Or(MaskPattern):
    left: MaskPattern
    right: MaskPattern

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return self.left.allows(i, j) | self.right.allows(i, j)


@dataclass(frozen=True, eq=False)
class AttentionMask:
    """The mask of one call: a pattern over positions, the token mask of the keys, and the documents
    of the keys, if the queries are among them."""

    pattern: MaskPattern
    queries: Tensor  # (T,) positions
    keys: Tensor  # (S,) positions
    token_mask: Tensor | None = None  # (B, S), True = real token; None = no padding
    documents: Tensor | None = None  # (B, S), number of the document; None = each row is one
    trees: Trees | None = None  # for positions that need them; they mask nothing
    needed: Tensor | None = None  # (B, T), True = its output is needed; None = all are

    @classmethod
    def bidirectional(
        cls,
        length: int,
        device: torch.device,
        token_mask: Tensor | None = None,
        trees: Trees | None = None,
    ) -> "AttentionMask":
        """Self-attention of an encoder: every token attends to every real token."""
        positions = torch.arange(length, device=device)
        return cls(Full(), positions, positions, token_mask, trees=trees)

    @classmethod
    def causal(
        cls, past: int, length: int, device: torch.device, documents: Tensor | None = None
    ) -> "AttentionMask":
        """Self-attention of a decoder: `length` new tokens attend to themselves and to `past`
        earlier tokens, never to later ones.

        `documents` (B, T) numbers the document of each token: attention stays within a document.
        It requires past = 0.
        """
        keys = torch.arange(past + length, device=device)
        return cls(Causal(), keys[past:] if past else keys, keys, documents=documents)

    @classmethod
    def cross(cls, queries: int, token_mask: Tensor) -> "AttentionMask":
        """Cross-attention: `queries` tokens attend to all real tokens of another sequence, whose
        token_mask is (B, S)."""
        device = token_mask.device
        return cls(
            Full(),
            torch.arange(queries, device=device),
            torch.arange(token_mask.size(1), device=device),
            token_mask,
        )

    @cached_property
    def dense(self) -> Tensor | None:
        """Dense mask, broadcastable to (B, H, T, S); None if every query attends to every key."""
        allowed = None
        if not isinstance(self.pattern, Full):
            allowed = self.pattern.allows(self.queries[:, None], self.keys[None, :])
        if self.token_mask is not None:
            allowed = _both(allowed, self.token_mask[:, None, None, :])
        if self.documents is not None:
            own = self.documents
            if self.queries is not self.keys:
                own = own[:, torch.searchsorted(self.keys, self.queries)]
            allowed = _both(allowed, own[:, None, :, None] == self.documents[:, None, None, :])
        return allowed

    def last(self, kept: int) -> "AttentionMask":
        """Return the mask of the last `kept` keys; itself if these are all."""
        if kept == len(self.keys):
            return self
        token_mask = None if self.token_mask is None else self.token_mask[:, -kept:]
        documents = None if self.documents is None else self.documents[:, -kept:]
        return replace(self, keys=self.keys[-kept:], token_mask=token_mask, documents=documents)

    def and_(self, pattern: MaskPattern) -> "AttentionMask":
        """Return the mask with a further pattern that must allow a pair as well."""
        alone = isinstance(self.pattern, Full)
        return replace(self, pattern=pattern if alone else self.pattern & pattern)

    def select(self, queries: slice, keys: slice) -> "AttentionMask":
        """Return the mask of some queries and keys; with documents, both slices must be equal."""
        selected = self.queries[queries]
        itself = self.queries is self.keys and queries == keys
        return AttentionMask(
            self.pattern,
            selected,
            selected if itself else self.keys[keys],
            None if self.token_mask is None else self.token_mask[:, keys],
            None if self.documents is None else self.documents[:, keys],
        )

    @property
    def is_plain_causal(self) -> bool:
        """True for a causal mask without past, padding or documents: fused kernels know it."""
        return (
            isinstance(self.pattern, Causal)
            and self.token_mask is None
            and self.documents is None
            and self.queries is self.keys
        )


def require_full_or_causal(mask: AttentionMask, kind: str) -> None:
    """Raise ConfigError for other patterns: a kind that sums over keys cannot mask single pairs."""
    if not isinstance(mask.pattern, (Full, Causal)) or mask.documents is not None:
        raise ConfigError(
            f"model.attention: '{kind}' supports full and causal masks without documents only; "
            f"choose another kind of attention (fused can)."
        )


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def positions_in_documents(documents: Tensor) -> Tensor:
    """Return the position of each token in its document, from 0: (B, T)."""
    row = torch.arange(documents.size(1), device=documents.device)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return row - torch.where(begins, row, 0).cummax(1).values
