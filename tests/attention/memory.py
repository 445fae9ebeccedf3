"""Sizes of the tensors that a computation creates and saves for the backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


@contextmanager
def saved_sizes() -> Iterator[list[int]]:
    """Collect the number of elements of each tensor saved for the backward pass."""
    sizes: list[int] = []

    def record(tensor: Tensor) -> Tensor:
        sizes.append(tensor.untyped_storage().nbytes() // tensor.element_size())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        yield sizes


class Largest(TorchDispatchMode):
    """Record the size in bytes of the largest output of any operation, forward or backward."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        for output in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            if isinstance(output, Tensor):
                self.largest = max(self.largest, output.untyped_storage().nbytes())
        return outputs
