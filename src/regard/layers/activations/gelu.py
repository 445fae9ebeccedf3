"""Gaussian error linear unit (Hendrycks and Gimpel 2016): x Φ(x), Φ the normal distribution."""

from collections.abc import Callable
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from regard.layers.activations.base import ActivationSpec


class Spec(ActivationSpec):
    """activation: gelu"""

    engine_code: ClassVar[int | None] = 2
    ctranslate2_code: ClassVar[int | None] = 3
    hugging_face_names: ClassVar[tuple[str, ...]] = ("gelu",)

    def function(self) -> Callable[[Tensor], Tensor]:
        return F.gelu
