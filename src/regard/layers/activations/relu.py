"""Rectified linear unit (Nair and Hinton 2010): max(0, x)."""

from collections.abc import Callable
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from regard.layers.activations.base import ActivationSpec


class Spec(ActivationSpec):
    """activation: relu"""

    engine_code: ClassVar[int | None] = 1
    ctranslate2_code: ClassVar[int | None] = 0
    hugging_face_names: ClassVar[tuple[str, ...]] = ("relu",)

    def function(self) -> Callable[[Tensor], Tensor]:
        return F.relu
