"""A few queries at a time, with the keys that they may look at, where these lie.

Where each word looks at some others only, queries that stand side by side look at much the same
keys. Such a piece is small enough for the cache of a processor, and its scores are plain matrix
products: of views, where its keys stand in a row. Nothing is laid out anew, and nothing waits for
the way back but queries, keys and values: there the weights are worked out again, and what comes of
a piece is added to where its keys are by the product that makes it.

A piece of T queries and S keys, of one row: q (H, T, K), k and v (H, S, K), weights (H, T, S)
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.masks import View
from regard.positions.sites import InAttention


@dataclass(frozen=True, eq=False)
class Piece:
    row: int
    queries: slice
    keys: Sequence[slice]
    hidden: Tensor  # 0 or −∞, broadcastable to (T, S)
    lonely: bool = False  # whether a query may have nothing to see


def suits(q: Tensor, view: View, position: InAttention) -> bool:
    """A processor takes one piece after the other, and what is added to scores is worked out for
    all of them; other machines want all pieces at once."""
    biased = position.bias(q[:1, :, :1], view.queries[:1], view.keys[:1]) is not None
    return q.device.type == "cpu" and not biased and not position.weighs_values


def look(q: Tensor, k: Tensor, v: Tensor, pieces: Iterable[Piece]) -> Tensor:
    """What queries (B, H, T, K) find in keys and values (B, H, S, K): each is in one piece."""
    single = torch.promote_types(q.dtype, torch.float32)
    given = (each.to(single) for each in (q, k, v))
    found: Tensor = _InPieces.apply(*given, pieces)  # type: ignore[no-untyped-call]
    return found.to(q.dtype)


def hiding(visible: Tensor, like: Tensor) -> Tensor:
    """0 where one may look and −∞ elsewhere."""
    wide = torch.promote_types(like.dtype, torch.float32)
    return torch.zeros_like(visible, dtype=wide).masked_fill_(~visible, float("-inf"))


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, pieces: Iterable[Piece]) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.pieces = pieces
        found = torch.empty_like(q)
        with torch.autocast(q.device.type, enabled=False):
            for piece, asking, keys, values in _each(pieces, q, k, v):
                weights = _weights(asking, keys, piece)
                torch.bmm(weights, values, out=found[piece.row, :, piece.queries])
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, toward: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        scale = _scale(q)
        for piece, asking, keys, values in _each(ctx.pieces, q, k, v):
            row, queries = piece.row, piece.queries
            wanted = toward[row, :, queries]
            weights = _weights(asking, keys, piece)
            _add(of_v[row], piece.keys, weights, wanted)
            of_weights = wanted @ values.mT
            of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
            of_q[row, :, queries].baddbmm_(of_scores, keys, beta=0, alpha=scale)
            _add(of_k[row], piece.keys, of_scores, asking, scale)
        return of_q, of_k, of_v, None


def _each(
    pieces: Iterable[Piece], q: Tensor, k: Tensor, v: Tensor
) -> Iterator[tuple[Piece, Tensor, Tensor, Tensor]]:
    for piece in pieces:
        keys, values = (_taken(x[piece.row], piece.keys) for x in (k, v))
        yield piece, q[piece.row, :, piece.queries], keys, values


def _taken(x: Tensor, places: Sequence[slice]) -> Tensor:
    parts = [x[:, each] for each in places]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _weights(q: Tensor, k: Tensor, piece: Piece) -> Tensor:
    weights = torch.baddbmm(piece.hidden, q, k.mT, alpha=_scale(q)).softmax(-1)
    # Over −∞ alone, the softmax is not a number.
    return weights.masked_fill_(piece.hidden.isneginf(), 0.0) if piece.lonely else weights


def _add(
    x: Tensor, places: Sequence[slice], weights: Tensor, words: Tensor, scale: float = 1.0
) -> None:
    """To each key what the queries send it: weightsᵀ · words."""
    begin = 0
    for each in places:
        part = x[:, each]
        until = begin + part.size(1)
        part.baddbmm_(weights[..., begin:until].mT, words, alpha=scale)
        begin = until


def _scale(q: Tensor) -> float:
    return 1 / math.sqrt(q.size(-1))
