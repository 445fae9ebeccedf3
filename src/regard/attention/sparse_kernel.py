"""Attention over some of the pairs on a CPU, compiled (native/sparse.cpp), as an operator of torch.

A plan says who meets whom: tiles of queries that stand in a row, and for each the ranges of keys
that it looks at. Of those, a query sees keys from so many before it to so many after it, and none
that is padding or of another document. A text's plan depends on its length alone.

N tiles, each with M ranges of keys, for each of R rows, or one plan for all: R = 1
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from regard.attention.masks import AttentionMask
from regard.native.library import POINTER, library
from regard.positions.base import InAttention

TILE = 64  # queries, at most
FAR = 2**29  # beyond any text


@dataclass(frozen=True, eq=False)
class Plan:
    queries: Tensor  # (N, 2) from … to
    keys: Tensor  # (R, N, M, 2) from … to
    dilation: int = 1  # a tile's words, and their keys
    before: int = FAR  # in steps of `dilation`
    after: int = FAR


def is_supported(q: Tensor, mask: AttentionMask, position: InAttention) -> bool:
    """Other machines want all tiles at once. A bias is worked out for all pairs."""
    if q.device.type != "cpu" or q.dtype == torch.float64 or library() is None:
        return False
    biased = position.bias(q[:1, :, :1], mask.queries[:1], mask.keys[:1]) is not None
    return not (biased or position.weighs_values)


def sparse_attention(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, plan: Plan) -> Tensor:
    """What queries (B, H, T, K) find in keys and values (B, H, S, K): each is in one tile."""
    given = [_even(each.float()) for each in (q, k, v)]
    returns = torch.is_grad_enabled() and any(each.requires_grad for each in given)
    who = [plan.queries, plan.keys, *_labels(mask)]
    found: Tensor
    found, _ = _sparse(*given, who, [plan.dilation, plan.before, plan.after], returns)
    return found.to(q.dtype)


def _labels(mask: AttentionMask) -> Sequence[Tensor]:
    """A number of each query and one of each key, of which only equals may see each other; none
    where all may."""
    token_mask, documents = mask.token_mask, mask.documents
    if documents is None:
        if token_mask is None:
            return ()
        documents = torch.zeros_like(token_mask, dtype=torch.int32)
    keys = documents.int().contiguous()
    queries = keys[:, -len(mask.queries) :].contiguous()
    if token_mask is not None:
        keys = keys.masked_fill(~token_mask, torch.iinfo(torch.int32).min)
    return queries, keys


def _even(x: Tensor) -> Tensor:
    """Its vectors each in one place."""
    return x if x.stride(3) == 1 else x.contiguous()


# The operator, its backward pass, and their registration in torch. `plan` is queries and keys of a
# Plan, and
# labels if there are any; `reach` is the rest of it.


@torch.library.custom_op("regard::sparse", mutates_args=())
def _sparse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Sequence[Tensor],
    reach: Sequence[int],
    returns: bool,
) -> tuple[Tensor, Tensor]:
    """Answers (B, H, T, K), and the logarithm of each query's sum, if there is a backward pass."""
    found = torch.empty_like(q)
    total = q.new_empty(q.shape[:3] if returns else 0)
    given = _Sparse.of(q, k, v, plan, reach)
    given.found = _Strided.of(found)
    given.total = total.data_ptr() if returns else None
    _compiled().regard_sparse(ctypes.byref(given), torch.get_num_threads())
    return found, total


@torch.library.custom_op("regard::sparse_back", mutates_args=())
def _sparse_back(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Sequence[Tensor],
    reach: Sequence[int],
    found: Tensor,
    total: Tensor,
    toward: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    of_q, of_k, of_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    toward = _even(toward)
    given = _Sparse.of(q, k, v, plan, reach)
    given.found, given.total, given.toward = (
        _Strided.of(found),
        total.data_ptr(),
        _Strided.of(toward),
    )
    given.of_q, given.of_k, given.of_v = (_Strided.of(x) for x in (of_q, of_k, of_v))
    _compiled().regard_sparse_back(ctypes.byref(given), torch.get_num_threads())
    return of_q, of_k, of_v


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.plan, ctx.reach, _ = inputs
    ctx.save_for_backward(q, k, v, *output)


def _return(ctx: Any, toward: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, found, total = ctx.saved_tensors
    gradients = _sparse_back(q, k, v, ctx.plan, ctx.reach, found, total, toward)
    return (*gradients, [None for _ in ctx.plan], None, None)


_sparse.register_autograd(_return, setup_context=_keep)


@_sparse.register_fake
def _(q: Tensor, *given: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3] if given[-1] else 0)


@_sparse_back.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


@register_flop_formula(torch.ops.regard.sparse, get_raw=True)
def _(*given: Any, **_: Any) -> int:
    return 2 * _product(*given)


@register_flop_formula(torch.ops.regard.sparse_back, get_raw=True)
def _(*given: Any, **_: Any) -> int:
    return 5 * _product(*given)


def _product(*given: Any) -> int:
    """The work of one product over the pairs that tiles and their keys make, in all heads."""
    q, _, _, (queries, key_ranges, *_), reach = given[:5]
    asking = queries.diff(dim=1).flatten() / reach[0]
    asked = key_ranges.diff(dim=3).sum((2, 3)) / reach[0]  # (R, N)
    rows, heads, _, size = q.shape
    return int(2 * rows * heads * size * (asking * asked).sum(1).mean())


# What is compiled


class _Strided(ctypes.Structure):
    _fields_ = [("at", POINTER), *[(name, ctypes.c_int64) for name in ("row", "head", "word")]]

    @classmethod
    def of(cls, x: Tensor) -> "_Strided":
        return cls(x.data_ptr(), *x.stride()[:3])


class _Sparse(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("rows", "heads", "words", "keys", "size")],
        *[(name, ctypes.c_int) for name in ("dilation", "before", "after")],
        *[(name, ctypes.c_int) for name in ("tiles", "ranges", "plans")],
        *[(name, POINTER) for name in ("queries", "key_ranges", "asking", "asked")],
        *[(name, _Strided) for name in ("q", "k", "v", "found")],
        ("total", POINTER),
        *[(name, _Strided) for name in ("toward", "of_q", "of_k", "of_v")],
    ]

    @classmethod
    def of(
        cls, q: Tensor, k: Tensor, v: Tensor, plan: Sequence[Tensor], reach: Sequence[int]
    ) -> "_Sparse":
        rows, heads, words, size = q.shape
        plans, tiles, ranges, _ = plan[1].shape
        labels = plan[2:] or (None, None)
        return cls(
            *(rows, heads, words, k.size(2), size),
            *reach,
            *(tiles, ranges, plans),
            *(None if each is None else each.data_ptr() for each in (*plan[:2], *labels)),
            *(_Strided.of(each) for each in (q, k, v)),
        )


@cache
def _compiled() -> ctypes.CDLL:
    found = library()
    assert found is not None  # whoever comes here has asked
    for function in (found.regard_sparse, found.regard_sparse_back):
        function.argtypes, function.restype = [ctypes.POINTER(_Sparse), ctypes.c_int], None
    return found
