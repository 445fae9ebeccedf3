"""Which way a model is decoded: through the engine where it can, as it is where it cannot."""

from collections.abc import Callable, Hashable
from typing import Any

from torch import nn

from regard.attention.multi_head import MultiHead
from regard.engine.library import library
from regard.engine.packing import UnsupportedError
from regard.engine.steppers import FastEncoderDecoder, FastLanguageModel
from regard.errors import ConfigError
from regard.hardware import keep_freed_memory
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.language_model import LanguageModel

FAST: dict[type, Callable[..., Any]] = {
    EncoderDecoder: FastEncoderDecoder,
    LanguageModel: FastLanguageModel,
}


class EngineModel:
    """A model, and its packed form for as long as its weights stay as they are."""

    def __init__(self, model: nn.Module, capacity: int, bits: int = 32) -> None:
        if bits != 32 and not _is_transformer(model):
            raise ConfigError(
                "whole-number weights (--int8; in Python, bits=8) are for Transformers that are an "
                "encoder-decoder or a language model, and this model is another kind: decode "
                "without."
            )
        self.model = model
        self.capacity = capacity
        self.bits = bits
        self._packed: Any = None
        self._of: list[Hashable] | None = None
        self._walk: _Walk | None = None

    @property
    def uses_engine(self) -> bool:
        return self.current is not self.model

    @property
    def current(self) -> Any:
        """A Stepper with the model's present weights."""
        if library() is None or type(self.model) not in FAST:
            return self.model
        if self._walk is None or not self._walk.holds():
            self._walk = _Walk(self.model)
        if self._walk.is_watched():
            return self.model
        weights = self._walk.weights()
        if weights != self._of:
            self._packed, self._of = self._pack(), weights
        return self.model if self._packed is None else self._packed

    def _pack(self) -> Any:
        if any(p.device.type != "cpu" for p in self.model.parameters()):
            return None
        keep_freed_memory()  # each step's logits are megabytes, used once
        try:
            return FAST[type(self.model)](self.model, self.capacity, self.bits)
        except UnsupportedError:
            return None


def _is_transformer(model: nn.Module) -> bool:
    """Others may have its form and other blocks in it."""
    return type(model) in FAST and any(isinstance(each, MultiHead) for each in model.modules())


class _Walk:
    """The modules of a model in one list, and their weights as they are.

    Asked for each line that is translated alone: torch's own walks take ten times as long.
    """

    def __init__(self, model: nn.Module) -> None:
        self.modules = [(module, tuple(module._modules.values())) for module in model.modules()]

    def holds(self) -> bool:
        """Whether the model still has these modules."""
        return all(tuple(module._modules.values()) == inside for module, inside in self.modules)

    def is_watched(self) -> bool:
        """Whoever watches or steps in wants to have the model itself at work."""
        return any(m._forward_hooks or m._forward_pre_hooks for m, _ in self.modules)

    def weights(self) -> list[Hashable]:
        """What would change if a weight did."""
        return [
            part
            for module, _ in self.modules
            for each in module._parameters.values()
            if each is not None
            for part in (each.data_ptr(), each._version)
        ]
