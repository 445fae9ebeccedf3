"""Activations, one file a kind: the element-wise non-linearity of a feed-forward network.

A kind declares its function, and its name in the libraries that know it. A library without a name
for it refuses the model; the compiled engine without a code for it leaves decoding to torch.
"""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from regard.config import Kind


class ActivationSpec(Kind, package="regard.layers.activations", default="relu"):
    """A kind of activation, a function of each number by itself."""

    engine_code: ClassVar[int | None] = None  # in native/kernels.h (enum Activation)
    ctranslate2_code: ClassVar[int | None] = None  # in CTranslate2's ops::ActivationType
    hugging_face_names: ClassVar[tuple[str, ...]] = ()  # in config.json; the first is exported

    def function(self) -> Callable[[Tensor], Tensor]:
        """Return the function, which keeps the shape of its argument."""
        raise NotImplementedError
