"""Blocks of queries, each with keys of its own, and never the keys of all of them at once.

The keys of neighbouring blocks are partly the same. Put side by side they are several times as many
as the sequence has, and so are their gradients. So a few blocks are asked at a time: their keys are
taken, looked at and let go; on the way back they are taken again, and what comes of them is added
to where they were taken from. What is kept in between is what full attention keeps.

N blocks of T queries (N, H, T, K), and S keys for each (N, H, S, K), taken from some tensor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.fused import fused
from regard.attention.masks import View
from regard.positions.sites import InAttention

AT_ONCE = 2**20  # numbers in the keys, or the mask, of the blocks that are asked at a time

_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_kernel_back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


class Places(Protocol):
    """Where the keys of each block are."""

    def take(self, x: Tensor, blocks: slice) -> Tensor:
        """The keys of some blocks, (n, H, S, K), as a view of x if that can be."""
        ...

    def give(self, x: Tensor, blocks: slice, part: Tensor) -> None:
        """Add to x what belongs to the keys of some blocks, (n, H, S, K)."""
        ...


@dataclass(frozen=True)
class Overlapping:
    """Keys in a row, from one `step` further for each block: x is (places, H, K)."""

    reach: int
    step: int

    def take(self, x: Tensor, blocks: slice) -> Tensor:
        return x.unfold(0, self.reach, self.step)[blocks].transpose(2, 3)

    def give(self, x: Tensor, blocks: slice, part: Tensor) -> None:
        for number, each in enumerate(part.transpose(1, 2), start=blocks.start):
            x[number * self.step : number * self.step + self.reach] += each


@dataclass(frozen=True, eq=False)
class Chosen:
    """The blocks of keys that are named by number, (N, M), for each: x is (blocks, size, H, K)."""

    which: Tensor

    def take(self, x: Tensor, blocks: slice) -> Tensor:
        which = self.which[blocks]
        found = x.index_select(0, which.flatten())
        return found.view(len(which), -1, *x.shape[2:]).transpose(1, 2)

    def give(self, x: Tensor, blocks: slice, part: Tensor) -> None:
        x.index_add_(
            0, self.which[blocks].flatten(), part.transpose(1, 2).reshape(-1, *x.shape[1:])
        )


def look(
    q: Tensor, k: Tensor, v: Tensor, places: Places, view: View, position: InAttention
) -> Tensor:
    """What blocks of queries find in their keys; the view is that of blocks, its padding (N, S)."""
    plain = position.bias(q[:1], view.queries, view.keys) is None and not position.weighs_values
    if plain and q.device.type == "cpu":
        given = (_dense(q), _dense(k), _dense(v), places, view)
        found: Tensor = _FewAtATime.apply(*given)  # type: ignore[no-untyped-call]
        return found
    every = slice(0, len(q))
    return fused(q, places.take(k, every), places.take(v, every), view, position)


class _FewAtATime(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, places: Places, view: View) -> Tensor:
        found = torch.empty_like(q.transpose(1, 2), memory_format=torch.contiguous_format)
        found = found.transpose(1, 2)
        sums = q.new_empty(q.shape[:-1], dtype=torch.promote_types(q.dtype, torch.float32))
        for blocks, hidden in _parts(q, view):
            found[blocks], sums[blocks] = _kernel(
                q[blocks], places.take(k, blocks), places.take(v, blocks), attn_mask=hidden
            )
        ctx.save_for_backward(q, k, v, found, sums)
        ctx.places, ctx.view = places, view
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, toward: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, found, sums = ctx.saved_tensors
        places, toward = ctx.places, _dense(toward)
        of_q = torch.empty_like(q)
        of_k, of_v = torch.zeros_like(k), torch.zeros_like(v)
        for blocks, hidden in _parts(q, ctx.view):
            of_q[blocks], keys, values = _kernel_back(
                toward[blocks],
                q[blocks],
                places.take(k, blocks),
                places.take(v, blocks),
                found[blocks],
                sums[blocks],
                0.0,
                False,
                attn_mask=hidden,
            )
            places.give(of_k, blocks, keys)
            places.give(of_v, blocks, values)
        return of_q, of_k, of_v, None, None


def _parts(q: Tensor, view: View) -> Iterator[tuple[slice, Tensor | None]]:
    """A few blocks at a time, and what is hidden from them: 0 or −∞, as the kernel wants it."""
    assert view.padding is not None
    numbers = len(view.keys) * max(q.size(1) * q.size(3), q.size(2))
    few = max(1, AT_ONCE // numbers)
    alike = replace(view, padding=None, documents=None)  # where nothing is hidden but by structure
    for start in range(0, len(q), few):
        blocks = slice(start, min(start + few, len(q)))
        part = alike
        if view.documents is not None or not view.padding[blocks].all():
            documents = None if view.documents is None else view.documents[blocks]
            part = replace(view, padding=view.padding[blocks], documents=documents)
        visible = part.visible
        if visible is None:
            yield blocks, None
            continue
        visible = visible.reshape(-1, 1, *visible.shape[-2:])
        yield blocks, q.new_zeros(visible.shape).masked_fill_(~visible, float("-inf"))


def _dense(x: Tensor) -> Tensor:
    """The kernel takes the numbers of a row to stand side by side, and does not look."""
    return x if x.stride(-1) == 1 else x.contiguous()
