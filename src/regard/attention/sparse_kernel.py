"""Sparse attention on a CPU, compiled (native/sparse.cpp), as an operator of torch.

A plan lists tiles of consecutive queries, and for each tile the ranges of keys that it attends to.
Of those, a query attends to keys from `before` steps before it to `after` steps after it, and to
none that is padding or of another document. The plan of a text depends on its length alone.

N tiles, each with M ranges of keys, for each of R rows; R = 1: one plan for all rows
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
from regard.native.library import POINTER, declare, library
from regard.positions.base import InAttention

TILE = 64  # queries of a tile, at most
UNLIMITED = 2**29  # longer than any text


@dataclass(frozen=True, eq=False)
class Plan:
    """Tiles of queries with their ranges of keys."""

    queries: Tensor  # (N, 2) from … to
    keys: Tensor  # (R, N, M, 2) from … to
    dilation: int = 1  # step between the tokens of a tile, and between their keys
    before: int = UNLIMITED  # in steps of `dilation`
    after: int = UNLIMITED


def is_supported(q: Tensor, mask: AttentionMask, position: InAttention) -> bool:
    """Return True if the kernel can compute this call: on a CPU, and without a bias.

    Other devices need all tiles in one batch, and a bias is computed for all pairs.
    """
    if q.device.type != "cpu" or q.dtype == torch.float64 or library() is None:
        return False
    biased = position.bias(q[:1, :, :1], mask.queries[:1], mask.keys[:1]) is not None
    return not (biased or position.weighs_values)


def sparse_attention(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, plan: Plan) -> Tensor:
    """Return the attention of queries (B, H, T, K) to keys and values (B, H, S, K).

    Each query is in exactly one tile.
    """
    qkv = [_with_unit_stride(x.float()) for x in (q, k, v)]
    backward = torch.is_grad_enabled() and any(x.requires_grad for x in qkv)
    tensors = [plan.queries, plan.keys, *_labels(mask)]
    output: Tensor
    output, _ = _sparse(*qkv, tensors, [plan.dilation, plan.before, plan.after], backward)
    return output.to(q.dtype)


def _labels(mask: AttentionMask) -> Sequence[Tensor]:
    """Return a label of each query and of each key, which must be equal for the query to attend;
    nothing if every query may attend to every key."""
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


def _with_unit_stride(x: Tensor) -> Tensor:
    """Return x with the components of each vector contiguous."""
    return x if x.stride(3) == 1 else x.contiguous()


# The operator, its backward pass, and their registration in torch. `plan` is the queries and keys
# of a Plan, and the labels if there are any; `reach` is (dilation, before, after).


@torch.library.custom_op("regard::sparse", mutates_args=())
def _sparse(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Sequence[Tensor],
    reach: Sequence[int],
    backward: bool,
) -> tuple[Tensor, Tensor]:
    """Return the output (B, H, T, K), and log Σ exp of each query if there is a backward pass."""
    output = torch.empty_like(q)
    log_sum = q.new_empty(q.shape[:3] if backward else 0)
    arguments = _Sparse.of(q, k, v, plan, reach)
    arguments.output = _Strided.of(output)
    arguments.log_sum = log_sum.data_ptr() if backward else None
    _compiled().regard_sparse(ctypes.byref(arguments), torch.get_num_threads())
    return output, log_sum


@torch.library.custom_op("regard::sparse_backward", mutates_args=())
def _sparse_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    plan: Sequence[Tensor],
    reach: Sequence[int],
    output: Tensor,
    log_sum: Tensor,
    grad_output: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    grads = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    grad_output = _with_unit_stride(grad_output)
    arguments = _Sparse.of(q, k, v, plan, reach)
    arguments.output, arguments.log_sum = _Strided.of(output), log_sum.data_ptr()
    arguments.grad_output = _Strided.of(grad_output)
    arguments.grad_q, arguments.grad_k, arguments.grad_v = (_Strided.of(grad) for grad in grads)
    _compiled().regard_sparse_backward(ctypes.byref(arguments), torch.get_num_threads())
    return grads


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.plan, ctx.reach, _ = inputs
    ctx.save_for_backward(q, k, v, *output)


def _backward(ctx: Any, grad_output: Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, output, log_sum = ctx.saved_tensors
    grads = _sparse_backward(q, k, v, ctx.plan, ctx.reach, output, log_sum, grad_output)
    return (*grads, [None for _ in ctx.plan], None, None)


_sparse.register_autograd(_backward, setup_context=_save)


@_sparse.register_fake
def _(q: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3] if others[-1] else 0)


@_sparse_backward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


@register_flop_formula(torch.ops.regard.sparse, get_raw=True)
def _(*arguments: Any, **_: Any) -> int:
    return 2 * _product(*arguments)


@register_flop_formula(torch.ops.regard.sparse_backward, get_raw=True)
def _(*arguments: Any, **_: Any) -> int:
    return 5 * _product(*arguments)


def _product(*arguments: Any) -> int:
    """Return the FLOPs of one product over all pairs of tiles and their keys, in all heads."""
    q, _, _, (queries, key_ranges, *_), reach = arguments[:5]
    num_queries = queries.diff(dim=1).flatten() / reach[0]
    num_keys = key_ranges.diff(dim=3).sum((2, 3)) / reach[0]  # (R, N)
    rows, heads, _, size = q.shape
    return int(2 * rows * heads * size * (num_queries * num_keys).sum(1).mean())


# Arguments of the compiled functions: the structs of native/sparse.h


class _Strided(ctypes.Structure):
    _fields_ = [("at", POINTER), *[(name, ctypes.c_int64) for name in ("row", "head", "token")]]

    @classmethod
    def of(cls, x: Tensor) -> "_Strided":
        return cls(x.data_ptr(), *x.stride()[:3])


class _Sparse(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int) for name in ("rows", "heads", "length", "keys", "head_dim")],
        *[(name, ctypes.c_int) for name in ("dilation", "before", "after")],
        *[(name, ctypes.c_int) for name in ("tiles", "ranges", "plans")],
        *[(name, POINTER) for name in ("query_tiles", "key_ranges")],
        *[(name, POINTER) for name in ("query_labels", "key_labels")],
        *[(name, _Strided) for name in ("q", "k", "v", "output")],
        ("log_sum", POINTER),
        *[(name, _Strided) for name in ("grad_output", "grad_q", "grad_k", "grad_v")],
    ]

    @classmethod
    def of(
        cls, q: Tensor, k: Tensor, v: Tensor, plan: Sequence[Tensor], reach: Sequence[int]
    ) -> "_Sparse":
        rows, heads, length, head_dim = q.shape
        plans, tiles, ranges, _ = plan[1].shape
        labels = plan[2:] or (None, None)
        return cls(
            *(rows, heads, length, k.size(2), head_dim),
            *reach,
            *(tiles, ranges, plans),
            *(None if x is None else x.data_ptr() for x in (*plan[:2], *labels)),
            *(_Strided.of(x) for x in (q, k, v)),
        )


@cache
def _compiled() -> ctypes.CDLL:
    compiled = library()
    assert compiled is not None  # `is_supported` was True
    for function in (compiled.regard_sparse, compiled.regard_sparse_backward):
        declare(function, [ctypes.POINTER(_Sparse), ctypes.c_int])
    return compiled
