"""Dropout (Srivastava et al. 2014): in training, each number is zeroed with probability p.

    output = x ∗ m / (1 − p),   m drawn anew in every call, 1 with probability 1 − p

On a CPU, torch draws m one number at a time, which takes a tenth of a training step. Here m comes
from random bytes, eight from each 64-bit draw of a fast generator that is seeded from torch's
generator: `torch.manual_seed` still determines everything. p is rounded to the nearest 1/256.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 256  # values of a byte
_this_thread = threading.local()


class Dropout(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.disabled = False  # True = behave as if p were 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.disabled or self.p == 0:
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


def set_dropout_enabled(model: nn.Module, enabled: bool) -> None:
    """Enable or disable every dropout layer of a model, whether it trains or not."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.disabled = not enabled


def random_bytes(count: int) -> Tensor:
    """Return `count` uniform random bytes, determined by torch's generator."""
    generator = getattr(_this_thread, "generator", None)
    seed: Any = torch.randint(2**62, (), generator=generator).item()
    words = np.random.SFC64(seed).random_raw(-(-count // 8))
    return torch.from_numpy(words.view(np.uint8)[:count])


@contextmanager
def fork_rng(seed: int) -> Iterator[None]:
    """Give the dropout of this thread a generator of its own, independent of other threads."""
    _this_thread.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _this_thread.generator = None
