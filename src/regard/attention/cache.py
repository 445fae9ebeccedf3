"""Keys and values as state: they go in, come out longer, and can be reordered."""

from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor


class Memory(Protocol):
    """What a layer keeps of the words so far, whatever that is."""

    def cut(self, length: int) -> Self: ...

    def reorder(self, rows: Tensor) -> Self: ...


class KeyValues(NamedTuple):
    """What a sequence offers to be looked at: keys and values, (B, H, S, K) each."""

    keys: Tensor
    values: Tensor

    def append(self, new: "KeyValues") -> "KeyValues":
        return KeyValues(
            torch.cat([self.keys, new.keys], dim=2), torch.cat([self.values, new.values], dim=2)
        )

    def repeated(self, times: int) -> "KeyValues":
        """Each head so many times in a row, for as many heads of queries to ask."""
        return KeyValues(
            self.keys.repeat_interleave(times, dim=1), self.values.repeat_interleave(times, dim=1)
        )

    def cut(self, length: int) -> "KeyValues":
        """The first `length` places."""
        return KeyValues(self.keys[:, :, :length], self.values[:, :, :length])

    def reorder(self, rows: Tensor) -> "KeyValues":
        """The rows of the batch named by index: for beams, and for leaving finished ones out."""
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))
