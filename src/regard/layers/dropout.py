"""Dropout (Srivastava et al. 2014): in training each number is zero with probability p.

    output = x ∗ m / (1 − p),   m drawn anew each time, 1 with probability 1 − p

On a CPU torch draws m one number at a time and takes a tenth of a training step for it. Here m
comes from random bytes, eight to a 64-bit draw of a fast generator, which is seeded from torch's
own: `torch.manual_seed` still decides everything. p is met to the nearest 1/256.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 256  # what a byte can tell apart
_this_thread = threading.local()


class Dropout(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.resting = False  # as if p were 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.resting or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        kept = round(LEVELS * (1 - self.p))
        if kept == LEVELS:
            return x
        mask = (random_bytes(x.numel()) < kept).view(x.shape).to(x.dtype)
        return x * mask.mul_(LEVELS / kept) if kept else torch.zeros_like(x)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def rest(model: nn.Module, resting: bool) -> None:
    """Let a model go without its dropout, or let it begin."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.resting = resting


def random_bytes(count: int) -> Tensor:
    """So many bytes, each value equally likely, as torch's generator decides."""
    generator = getattr(_this_thread, "generator", None)
    seed: Any = torch.randint(2**62, (), generator=generator).item()
    words = np.random.SFC64(seed).random_raw(-(-count // 8))
    return torch.from_numpy(words.view(np.uint8)[:count])


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Within, this thread's dropout has a generator of its own, whatever other threads draw."""
    _this_thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _this_thread.generator = None
