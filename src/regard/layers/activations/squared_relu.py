"""Squared ReLU, found by search in Primer (So et al. 2021): max(0, x)²."""

from collections.abc import Callable
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from regard.layers.activations.base import ActivationSpec


def squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


class Spec(ActivationSpec):
    """activation: squared-relu"""

    hugging_face_names: ClassVar[tuple[str, ...]] = ("relu2",)

    def function(self) -> Callable[[Tensor], Tensor]:
        return squared_relu
