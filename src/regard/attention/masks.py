"""Who may look at whom. One meaning everywhere: True = may look.

A structural mask (the future, a window …) is a small frozen predicate over positions; masks join
with & and |. Padding and documents belong to the batch and travel beside the structure, as do the
trees that words stand in. A `View` holds all of them for one call; every layer of a model shares
it, so its dense form is worked out at most once.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.positions.trees import Trees


class MaskPattern:
    """A predicate over positions: may a query at i look at a key at j?"""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        raise NotImplementedError

    def __and__(self, other: "MaskPattern") -> "MaskPattern":
        return And(self, other)

    def __or__(self, other: "MaskPattern") -> "MaskPattern":
        return Or(self, other)


@dataclass(frozen=True)
class Full(MaskPattern):
    """All may look at all: the encoder, and the decoder at the encoder."""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return torch.ones_like(i + j, dtype=torch.bool)


@dataclass(frozen=True)
class Causal(MaskPattern):
    """Nobody looks at the future: j ≤ i."""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return j <= i


@dataclass(frozen=True)
class Window(MaskPattern):
    """Only neighbours at most `size` away, and of those every `dilation`-th."""

    size: int
    dilation: int = 1

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        near = (i - j).abs() <= self.size
        return near if self.dilation == 1 else near & ((i - j) % self.dilation == 0)


@dataclass(frozen=True)
class BigBird(MaskPattern):
    """By blocks of places: those near, the first, which see all and are seen by all, and a few
    drawn by chance (Zaheer et al. 2020). Chance knows how many blocks the sequence has."""

    block: int
    window: int  # blocks, its own in the middle
    first: int
    random: int
    seed: int
    blocks: int

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        asking, asked = i // self.block, j // self.block
        near = (asking - asked).abs() <= self.window // 2
        everywhere = torch.minimum(asking, asked) < self.first
        drawn = self.drawn.to(i.device)[asking.clamp(max=self.blocks)]
        return near | everywhere | (drawn == asked[..., None]).any(-1)

    @property
    def drawn(self) -> Tensor:
        """The blocks (blocks + 1, random) that each has drawn; −1 where there were no more, and
        for all that stands behind the last block."""
        return _drawn(self.blocks, self.window, self.first, self.random, self.seed)


@lru_cache(maxsize=4096)
def _drawn(blocks: int, window: int, first: int, random: int, seed: int) -> Tensor:
    """Drawn from those that are neither near nor first, none twice."""
    own = torch.arange(blocks)
    begin = (own - window // 2).clamp(min=first)
    near = ((own + window // 2 + 1).clamp(max=blocks) - begin).clamp(min=0)
    others = blocks - first - near
    chances = torch.rand(blocks, random, generator=torch.Generator().manual_seed(seed))
    taken = own.new_empty(blocks, 0)  # their ranks among the others, in order
    drawn = own.new_full((blocks + 1, random), -1)
    for turn, chance in enumerate(chances.T):
        rank = (chance * (others - turn)).long()
        for earlier in taken.T:
            rank = rank + (rank >= earlier)
        left = others > turn
        taken = torch.cat([taken, torch.where(left, rank, blocks)[:, None]], dim=1).sort().values
        place = first + rank
        drawn[:-1, turn] = torch.where(left, place + near * (place >= begin), -1)
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
    """Who may look at whom in one call: structure over positions, padding of the keys, and the
    documents of a row that looks at itself, or of which a part does."""

    pattern: MaskPattern
    queries: Tensor  # (T,) positions
    keys: Tensor  # (S,) positions
    token_mask: Tensor | None = None  # (B, S), True = a real word; None = no padding
    documents: Tensor | None = None  # (B, S), its number; None = each row is one document
    trees: Trees | None = None  # for positions that ask for them; they hide nothing
    needed: Tensor | None = None  # (B, T), True = its answer is wanted; None = all are

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
        """The dense mask, broadcastable to (B, H, T, S); None where all may look at all."""
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
        """The same where only the last keys are left to be seen; itself where all are."""
        if kept == len(self.keys):
            return self
        token_mask = None if self.token_mask is None else self.token_mask[:, -kept:]
        documents = None if self.documents is None else self.documents[:, -kept:]
        return replace(self, keys=self.keys[-kept:], token_mask=token_mask, documents=documents)

    def and_(self, pattern: MaskPattern) -> "AttentionMask":
        """The same where this is asked for as well."""
        alone = isinstance(self.pattern, Full)
        return replace(self, pattern=pattern if alone else self.pattern & pattern)

    def select(self, queries: slice, keys: slice) -> "AttentionMask":
        """The same for some of the queries and some of the keys; where there are documents, the
        same of both."""
        asking = self.queries[queries]
        itself = self.queries is self.keys and queries == keys
        return AttentionMask(
            self.pattern,
            asking,
            asking if itself else self.keys[keys],
            None if self.token_mask is None else self.token_mask[:, keys],
            None if self.documents is None else self.documents[:, keys],
        )

    @property
    def is_plain_causal(self) -> bool:
        """The same positions on both sides and nothing else: the mask a fused kernel knows."""
        return (
            isinstance(self.pattern, Causal)
            and self.token_mask is None
            and self.documents is None
            and self.queries is self.keys
        )


def require_full_or_causal(mask: AttentionMask, kind: str) -> None:
    """For kinds that have no pairs to mask, only sums: over all real words, or those up to one."""
    if not isinstance(mask.pattern, (Full, Causal)) or mask.documents is not None:
        raise ConfigError(
            f"attention '{kind}' can look at all words or at the past, not by another mask; "
            f"choose another kind of attention (fused can)."
        )


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def positions_in_documents(documents: Tensor) -> Tensor:
    """Where each word stands in its document, from 0: (B, T), given the documents' numbers."""
    row = torch.arange(documents.size(1), device=documents.device)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return row - torch.where(begins, row, 0).cummax(1).values
