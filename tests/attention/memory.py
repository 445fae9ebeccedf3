"""How large the tensors are that a computation makes and keeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@contextmanager
def saved_sizes() -> Iterator[list[int]]:
    """How many numbers the tensors have that wait for the way back."""
    sizes: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        sizes.append(tensor.untyped_storage().nbytes() // tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield sizes


class Largest(TorchDispatchMode):
    """The largest tensor that any operation gives, forward or backward."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, Tensor):
                self.largest = max(self.largest, each.untyped_storage().nbytes())
        return found
