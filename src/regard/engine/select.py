"""Choose the compiled engine when it supports the model, otherwise decode with torch."""

from collections.abc import Callable, Hashable
from typing import Any

from torch import nn

from regard.attention.multi_head import MultiHead
from regard.engine.library import library
from regard.engine.packing import UnsupportedError
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel
from regard.engine.torch_model import TorchModel
from regard.errors import ConfigError
from regard.hardware import keep_freed_memory
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel

FAST: dict[type, Callable[..., Any]] = {
    EncoderDecoder: FastEncoderDecoder,
    LanguageModel: FastLanguageModel,
}


class EngineModel:
    """A model and its packed form, which is packed again when a weight changes."""

    def __init__(self, model: nn.Module, capacity: int, bits: int = 32) -> None:
        if bits not in (8, 32):
            raise ConfigError(f"bits is {bits!r}; it must be 32, or 8 for integer weights.")
        if bits != 32 and not _is_transformer(model):
            raise ConfigError(
                "integer weights (--int8; in Python, bits=8) are for Transformers of kind "
                "encoder-decoder or language-model, and this model is of another kind: decode "
                "without."
            )
        self.model = model
        self.capacity = capacity
        self.bits = bits
        self._torch_model = TorchModel(model)
        self._packed: Any = None
        self._packed_weights: list[Hashable] | None = None
        self._modules: _Modules | None = None

    @property
    def uses_engine(self) -> bool:
        return not isinstance(self.current, TorchModel)

    @property
    def current(self) -> Any:
        """A Stepper with the current weights: the packed model, or the torch model."""
        if library() is None or type(self.model) not in FAST:
            return self._torch_model
        if self._modules is None or not self._modules.are_unchanged():
            self._modules = _Modules(self.model)
        if self._modules.have_hooks():
            return self._torch_model
        weights = self._modules.weights()
        if weights != self._packed_weights:
            self._packed, self._packed_weights = self._pack(), weights
        return self._torch_model if self._packed is None else self._packed

    def _pack(self) -> Any:
        if any(p.device.type != "cpu" for p in self.model.parameters()):
            return None
        keep_freed_memory()  # the logits of each step are megabytes, used once
        try:
            return FAST[type(self.model)](self.model, self.capacity, self.bits)
        except UnsupportedError:
            return None


def _is_transformer(model: nn.Module) -> bool:
    """Return True for a Transformer; a baseline may have the same model class with other blocks."""
    return type(model) in FAST and any(isinstance(part, MultiHead) for part in model.modules())


class _Modules:
    """The modules of a model in one list, to detect changes of modules, hooks and weights.

    It is used for each line that is translated alone: torch's own traversal takes ten times as
    long.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = [(module, tuple(module._modules.values())) for module in model.modules()]

    def are_unchanged(self) -> bool:
        """Return True if the model still has these modules."""
        return all(tuple(module._modules.values()) == children for module, children in self.modules)

    def have_hooks(self) -> bool:
        """Return True if a hook observes or changes the model, which must then run itself."""
        return any(m._forward_hooks or m._forward_pre_hooks for m, _ in self.modules)

    def weights(self) -> list[Hashable]:
        """Return the address and version of each parameter: they differ if a weight changed."""
        return [
            part
            for module, _ in self.modules
            for parameter in module._parameters.values()
            if parameter is not None
            for part in (parameter.data_ptr(), parameter._version)
        ]
