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


class Mask:
    """A predicate over positions: may a query at i look at a key at j?"""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        raise NotImplementedError

    def __and__(self, other: "Mask") -> "Mask":
        return Both(self, other)

    def __or__(self, other: "Mask") -> "Mask":
        return Either(self, other)


@dataclass(frozen=True)
class Everything(Mask):
    """All may look at all: the encoder, and the decoder at the encoder."""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return torch.ones_like(i + j, dtype=torch.bool)


@dataclass(frozen=True)
class Causal(Mask):
    """Nobody looks at the future: j ≤ i."""

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return j <= i


@dataclass(frozen=True)
class Window(Mask):
    """Only neighbours at most `size` away, and of those every `dilation`-th."""

    size: int
    dilation: int = 1

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        near = (i - j).abs() <= self.size
        return near if self.dilation == 1 else near & ((i - j) % self.dilation == 0)


@dataclass(frozen=True)
class BigBird(Mask):
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
class Both(Mask):
    left: Mask
    right: Mask

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return self.left.allows(i, j) & self.right.allows(i, j)


@dataclass(frozen=True)
class Either(Mask):
    left: Mask
    right: Mask

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return self.left.allows(i, j) | self.right.allows(i, j)


@dataclass(frozen=True, eq=False)
class View:
    """Who may look at whom in one call: structure over positions, padding of the keys, and the
    documents of a row that looks at itself, or of which a part does."""

    structure: Mask
    queries: Tensor  # (T,) positions
    keys: Tensor  # (S,) positions
    token_mask: Tensor | None = None  # (B, S), True = a real word; None = no padding
    documents: Tensor | None = None  # (B, S), its number; None = each row is one document
    trees: Trees | None = None  # for positions that ask for them; they hide nothing
    counted: Tensor | None = None  # (B, T), True = its answer is wanted; None = all are

    @cached_property
    def visible(self) -> Tensor | None:
        """The dense mask, broadcastable to (B, H, T, S); None where all may look at all."""
        allowed = None
        if not isinstance(self.structure, Everything):
            allowed = self.structure.allows(self.queries[:, None], self.keys[None, :])
        if self.token_mask is not None:
            allowed = _both(allowed, self.token_mask[:, None, None, :])
        if self.documents is not None:
            own = self.documents
            if self.queries is not self.keys:
                own = own[:, torch.searchsorted(self.keys, self.queries)]
            allowed = _both(allowed, own[:, None, :, None] == self.documents[:, None, None, :])
        return allowed

    def of_last(self, kept: int) -> "View":
        """The same where only the last keys are left to be seen; itself where all are."""
        if kept == len(self.keys):
            return self
        token_mask = None if self.token_mask is None else self.token_mask[:, -kept:]
        documents = None if self.documents is None else self.documents[:, -kept:]
        return replace(self, keys=self.keys[-kept:], token_mask=token_mask, documents=documents)

    def within(self, structure: Mask) -> "View":
        """The same where this is asked for as well."""
        alone = isinstance(self.structure, Everything)
        return replace(self, structure=structure if alone else self.structure & structure)

    def part(self, queries: slice, keys: slice) -> "View":
        """The same for some of the queries and some of the keys; where there are documents, the
        same of both."""
        asking = self.queries[queries]
        itself = self.queries is self.keys and queries == keys
        return View(
            self.structure,
            asking,
            asking if itself else self.keys[keys],
            None if self.token_mask is None else self.token_mask[:, keys],
            None if self.documents is None else self.documents[:, keys],
        )

    @property
    def plainly_causal(self) -> bool:
        """The same positions on both sides and nothing else: the mask a fused kernel knows."""
        return (
            isinstance(self.structure, Causal)
            and self.token_mask is None
            and self.documents is None
            and self.queries is self.keys
        )


def only_around_or_back(view: View, kind: str) -> None:
    """For kinds that have no pairs to mask, only sums: over all real words, or those up to one."""
    if not isinstance(view.structure, (Everything, Causal)) or view.documents is not None:
        raise ConfigError(
            f"attention '{kind}' can look at all words or at the past, not by another mask; "
            f"choose another kind of attention (fused can)."
        )


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def look_around(
    length: int, device: torch.device, token_mask: Tensor | None = None, trees: Trees | None = None
) -> View:
    """A sequence that looks at itself, both ways."""
    positions = torch.arange(length, device=device)
    return View(Everything(), positions, positions, token_mask, trees=trees)


def look_back(
    past: int, length: int, device: torch.device, documents: Tensor | None = None
) -> View:
    """`length` new words that look at themselves and at `past` earlier ones, never ahead.

    Where `documents` (B, T) numbers them, none looks out of its own; there is no past then.
    """
    keys = torch.arange(past + length, device=device)
    return View(Causal(), keys[past:] if past else keys, keys, documents=documents)


def places_within(documents: Tensor) -> Tensor:
    """Where each word stands in its document, from 0: (B, T), given the documents' numbers."""
    row = torch.arange(documents.size(1), device=documents.device)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return row - torch.where(begins, row, 0).cummax(1).values


def look_across(queries: int, token_mask: Tensor) -> View:
    """Words of one sequence that look at all real words of another; padding is (B, S)."""
    device = token_mask.device
    return View(
        Everything(),
        torch.arange(queries, device=device),
        torch.arange(token_mask.size(1), device=device),
        token_mask,
    )
