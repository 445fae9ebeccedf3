"""The logistic function σ(x) = 1 / (1 + e^−x), the gate of a GLU (Dauphin et al. 2017)."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from regard.layers.activations.base import ActivationSpec


class Spec(ActivationSpec):
    """activation: sigmoid"""

    engine_code: ClassVar[int | None] = 5
    ctranslate2_code: ClassVar[int | None] = 6
    hugging_face_names: ClassVar[tuple[str, ...]] = ("sigmoid",)

    def function(self) -> Callable[[Tensor], Tensor]:
        return torch.sigmoid
