"""A running average of the weights, which is calmer than the weights themselves.

average ← d · average + (1 − d) · weights        d grows to `decay` over the first steps
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class EMA:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = [each for each in model.parameters() if each.requires_grad]
        self.values = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        # Early weights are soon outdated: a short memory first (as in Tan and Le 2019).
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.values, self._current(), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the average for its weights within."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, value in zip(self.parameters, self.values, strict=True):
            kept = parameter.detach().clone()
            parameter.copy_(value)
            value.copy_(kept)

    def _current(self) -> list[Tensor]:
        return [parameter.detach() for parameter in self.parameters]
