"""A few blocks of queries at a time, each with the keys that it may look at.

Where each word looks at some others only, queries that stand side by side look at much the same
keys. A few such blocks are small enough for the cache of a processor, and their scores are one
product of matrices: of views, where keys stand in a row. Nothing waits for the way back but
queries, keys and values: there the weights are worked out again, and what comes of them is added to
where the keys are.

N blocks of T queries, of one head: q (N, T, K), keys and values (N, S, K), weights (N, T, S)
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.masks import View
from regard.positions.sites import InAttention

AT_ONCE = 2**19  # scores


class Places(Protocol):
    """Where the keys of a piece are in those of a row (L, K)."""

    def take(self, x: Tensor) -> Tensor:
        """(N, S, K), as a view if that can be."""
        ...

    def add(self, x: Tensor, weights: Tensor, words: Tensor, scale: float) -> None:
        """To each key what the queries send it: scale · weightsᵀ words."""
        ...


@dataclass(frozen=True)
class InARow:
    """Keys side by side, so many for each block; those of the next begin `step` further."""

    within: slice
    reach: int
    step: int

    def take(self, x: Tensor) -> Tensor:
        return x[self.within].unfold(0, self.reach, self.step).mT

    def add(self, x: Tensor, weights: Tensor, words: Tensor, scale: float) -> None:
        x = x[self.within]
        for number, (weight, word) in enumerate(zip(weights.mT, words, strict=True)):
            begin = number * self.step
            x[begin : begin + self.reach].addmm_(weight, word, alpha=scale)


@dataclass(frozen=True, eq=False)
class Named:
    """Blocks of keys by their numbers (N, M), each of `size`."""

    which: Tensor
    size: int

    def take(self, x: Tensor) -> Tensor:
        found = torch.unflatten(x, 0, (-1, self.size)).index_select(0, self.which.flatten())
        return found.view(len(self.which), -1, x.size(1))

    def add(self, x: Tensor, weights: Tensor, words: Tensor, scale: float) -> None:
        part = (weights.mT @ words).view(-1, self.size, x.size(1))
        torch.unflatten(x, 0, (-1, self.size)).index_add_(
            0, self.which.flatten(), part, alpha=scale
        )


@dataclass(frozen=True, eq=False)
class Piece:
    row: int
    queries: slice
    blocks: int  # N
    keys: Places
    hidden: Tensor  # 0 or −∞, broadcastable to (N, T, S)
    lonely: bool = False  # whether a query may have nothing to see


def suits(q: Tensor, view: View, position: InAttention) -> bool:
    """A processor takes one piece after the other; other machines want all of them at once. A bias
    is worked out for all."""
    biased = position.bias(q[:1, :, :1], view.queries[:1], view.keys[:1]) is not None
    return q.device.type == "cpu" and not biased and not position.weighs_values


def look(q: Tensor, k: Tensor, v: Tensor, pieces: Iterable[Piece]) -> Tensor:
    """What queries (B, H, T, K) find in keys and values (B, H, S, K): each is in one piece."""
    single = torch.promote_types(q.dtype, torch.float32)
    given = (each.to(single) for each in (q, k, v))
    found: Tensor = _InPieces.apply(*given, pieces)  # type: ignore[no-untyped-call]
    return found.to(q.dtype)


def hiding(visible: Tensor) -> Tensor:
    """0 where one may look and −∞ elsewhere."""
    return torch.zeros(visible.shape).masked_fill_(~visible, float("-inf"))


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, pieces: Iterable[Piece]) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.pieces = pieces
        found = torch.empty_like(q)
        with torch.autocast(q.device.type, enabled=False):
            for piece, (asking, into), (keys, values) in _heads(pieces, (q, found), (k, v)):
                weights = _weights(asking, piece.keys.take(keys), piece)
                torch.bmm(weights, piece.keys.take(values), out=into)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, toward: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        scale = _scale(q)
        for piece, (asking, wanted, into), (k_, v_, of_k_, of_v_) in _heads(
            ctx.pieces, (q, toward, of_q), (k, v, of_k, of_v)
        ):
            keys, places = piece.keys.take(k_), piece.keys
            weights = _weights(asking, keys, piece)
            places.add(of_v_, weights, wanted, 1.0)
            of_weights = wanted @ places.take(v_).mT
            of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            into.baddbmm_(of_scores, keys, beta=0, alpha=scale)
            places.add(of_k_, of_scores, asking, scale)
        return of_q, of_k, of_v, None


def _heads(
    pieces: Iterable[Piece], asking: tuple[Tensor, ...], asked: tuple[Tensor, ...]
) -> Iterator[tuple[Piece, list[Tensor], list[Tensor]]]:
    """Each head of each piece: what goes with queries (N, T, K), and what with keys (L, K)."""
    for piece in pieces:
        for head in range(asking[0].size(1)):
            queries = [x[piece.row, head, piece.queries] for x in asking]
            yield (
                piece,
                [torch.unflatten(x, 0, (piece.blocks, -1)) for x in queries],
                [x[piece.row, head] for x in asked],
            )


def _weights(q: Tensor, k: Tensor, piece: Piece) -> Tensor:
    hidden = piece.hidden.to(q.dtype)
    weights = torch.baddbmm(hidden, q, k.mT, alpha=_scale(q)).softmax(-1)
    # Over −∞ alone, the softmax is not a number.
    return weights.masked_fill_(hidden.isneginf(), 0.0) if piece.lonely else weights


def _scale(q: Tensor) -> float:
    return 1 / math.sqrt(q.size(-1))
