"""Who may look at whom. One meaning everywhere: True = may look.

A structural mask (the future, a window …) is a small frozen predicate over positions; masks join
with & and |. Padding and documents belong to the batch and travel beside the structure. A `View`
holds all three for one call; every layer of a model shares it, so its dense form is worked out at
most once.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor


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
    """Only neighbours at most `size` away."""

    size: int

    def allows(self, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= self.size


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
    documents of a row that looks at itself."""

    structure: Mask
    queries: Tensor  # (T,) positions
    keys: Tensor  # (S,) positions
    padding: Tensor | None = None  # (B, S), True = a real word; None = no padding
    documents: Tensor | None = None  # (B, T), its number; None = each row is one document
    counted: Tensor | None = None  # (B, T), True = its answer is wanted; None = all are

    @cached_property
    def visible(self) -> Tensor | None:
        """The dense mask, broadcastable to (B, H, T, S); None where all may look at all."""
        allowed = None
        if not isinstance(self.structure, Everything):
            allowed = self.structure.allows(self.queries[:, None], self.keys[None, :])
        if self.padding is not None:
            allowed = _both(allowed, self.padding[:, None, None, :])
        if self.documents is not None:
            same = self.documents[:, None, :, None] == self.documents[:, None, None, :]
            allowed = _both(allowed, same)
        return allowed

    def of_last(self, kept: int) -> "View":
        """The same where only the last keys are left to be seen; itself where all are."""
        if kept == len(self.keys):
            return self
        padding = None if self.padding is None else self.padding[:, -kept:]
        return replace(self, keys=self.keys[-kept:], padding=padding)

    @property
    def plainly_causal(self) -> bool:
        """The same positions on both sides and nothing else: the mask a fused kernel knows."""
        return (
            isinstance(self.structure, Causal)
            and self.padding is None
            and self.documents is None
            and self.queries is self.keys
        )


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def look_around(length: int, device: torch.device, padding: Tensor | None = None) -> View:
    """A sequence that looks at itself, both ways."""
    positions = torch.arange(length, device=device)
    return View(Everything(), positions, positions, padding)


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


def look_across(queries: int, padding: Tensor) -> View:
    """Words of one sequence that look at all real words of another; padding is (B, S)."""
    device = padding.device
    return View(
        Everything(),
        torch.arange(queries, device=device),
        torch.arange(padding.size(1), device=device),
        padding,
    )
