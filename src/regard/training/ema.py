"""Exponential moving average (EMA) of the weights, which varies less than the weights themselves.

ema ← d · ema + (1 − d) · weights        d grows to `decay` over the first steps
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class EMA:
    """The average of a model's trained parameters, updated after every step."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.values = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Average in the weights after the step-th update."""
        # Early weights are soon outdated: a short window first (as in Tan and Le 2019).
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.values, self._current(), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within, the model's parameters are the average."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, value in zip(self.parameters, self.values, strict=True):
            weights = parameter.detach().clone()
            parameter.copy_(value)
            value.copy_(weights)

    def _current(self) -> list[Tensor]:
        return [parameter.detach() for parameter in self.parameters]
