"""Sigmoid linear unit, also called swish (Elfwing et al. 2018): x σ(x)."""

from collections.abc import Callable
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from regard.layers.activations.base import ActivationSpec


class Spec(ActivationSpec):
    """activation: silu"""

    engine_code: ClassVar[int | None] = 4
    ctranslate2_code: ClassVar[int | None] = 2
    hugging_face_names: ClassVar[tuple[str, ...]] = ("silu", "swish")

    def function(self) -> Callable[[Tensor], Tensor]:
        return F.silu
