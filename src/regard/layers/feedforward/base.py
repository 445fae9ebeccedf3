"""Feed-forward networks, one file a kind: what gives a stack of attention its non-linearity."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Kind

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
}


class FeedForwardSpec(Kind, package="regard.layers.feedforward", default="dense"):
    """A kind of feed-forward network: D → ffn_dim → D, each word by itself.

    It is called with words (B, T, D) and, where that is known, which of them are real (B, T): those
    that are not may cost nothing.
    """

    renamed_kinds: ClassVar[Mapping[str, str]] = {"experts": "moe"}

    def build(self, dim: int, ffn_dim: int) -> nn.Module:
        raise NotImplementedError
