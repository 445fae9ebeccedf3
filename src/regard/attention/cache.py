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
    forgotten: int = 0  # places before the first of these, which nobody will look at again

    def append(self, new: "KeyValues") -> "KeyValues":
        return self._replace(
            keys=torch.cat([self.keys, new.keys], dim=2),
            values=torch.cat([self.values, new.values], dim=2),
        )

    def last(self, places: int) -> "KeyValues":
        """So many places at the end are kept, and the rest is forgotten."""
        over = max(0, self.keys.size(2) - places)
        return KeyValues(self.keys[:, :, over:], self.values[:, :, over:], self.forgotten + over)

    def repeated(self, times: int) -> "KeyValues":
        """Each head so many times in a row, for as many heads of queries to ask."""
        return KeyValues(
            self.keys.repeat_interleave(times, dim=1), self.values.repeat_interleave(times, dim=1)
        )

    def cut(self, length: int) -> "KeyValues":
        """The first `length` places, or what is kept of them."""
        kept = max(0, length - self.forgotten)
        return self._replace(keys=self.keys[:, :, :kept], values=self.values[:, :, :kept])

    def reorder(self, rows: Tensor) -> "KeyValues":
        """The rows of the batch named by index: for beams, and for leaving finished ones out."""
        return self._replace(
            keys=self.keys.index_select(0, rows), values=self.values.index_select(0, rows)
        )
