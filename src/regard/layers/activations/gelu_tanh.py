"""GELU by its approximation with tanh, as in GPT-2 (Hendrycks and Gimpel 2016, section 2).

x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from regard.layers.activations.base import ActivationSpec


class Spec(ActivationSpec):
    """activation: gelu-tanh"""

    engine_code: ClassVar[int | None] = 3
    ctranslate2_code: ClassVar[int | None] = 1
    hugging_face_names: ClassVar[tuple[str, ...]] = ("gelu_new", "gelu_pytorch_tanh")

    def function(self) -> Callable[[Tensor], Tensor]:
        return partial(F.gelu, approximate="tanh")
