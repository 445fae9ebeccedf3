"""Choose the compiled engine when it supports the model, otherwise compute with torch."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from regard.engine.encoders import FastEncoder
from regard.engine.library import library
from regard.engine.plan import UnsupportedError
from regard.engine.steppers import FastModel, packed_model
from regard.engine.stored_model import StoredModel
from regard.errors import ConfigError
from regard.hardware import keep_freed_memory

if TYPE_CHECKING:
    from torch import nn

BITS = (32, 8, 4)  # of the weights in memory

Packed = FastModel | FastEncoder


class EngineModel:
    """A model and its packed form, which is packed again when a weight changes."""

    def __init__(self, model: "nn.Module | StoredModel", capacity: int, bits: int = 32) -> None:
        if bits not in BITS:
            raise ConfigError(f"bits is {bits!r}; it must be 32, or 8 or 4 for integer weights.")
        if bits != 32:
            _require_engine(model)
        self._model = model
        self.capacity = capacity
        self.bits = bits
        self._packed: Packed | None = None
        self._packed_weights: list[Hashable] | None = None
        self._modules: _Modules | None = None
        self._shared: Any = None

    def share(self, shared: Any) -> None:
        """Compute with what several threads share, a Stepper or encoder, in place of the model."""
        self._shared = shared

    @property
    def model(self) -> Any:
        """The torch module."""
        return self._model.module if isinstance(self._model, StoredModel) else self._model

    @property
    def uses_engine(self) -> bool:
        return self.packed is not None

    @property
    def current(self) -> Any:
        """A Stepper with the current weights: the packed model, or the torch module."""
        if self._shared is not None:
            return self._shared
        if (packed := self.packed) is not None:
            return packed
        from regard.engine.torch_model import TorchModel

        return TorchModel(self.model)

    @property
    def packed(self) -> Packed | None:
        """The packed form with the current weights, or None where torch must compute the model."""
        if isinstance(self._shared, FastEncoder):
            return self._shared
        if isinstance(self._model, StoredModel) and not self._model.is_built:
            if self._packed is None:
                self._packed = self._model.pack(self.capacity, self.bits)
                keep_freed_memory()  # the logits of each step are megabytes, used once
            return self._packed
        return None if library() is None else self._packed_module()

    def _packed_module(self) -> Packed | None:
        if self._modules is None or not self._modules.are_unchanged():
            self._modules = _Modules(self.model)
        if self._modules.have_hooks():
            return None
        weights = self._modules.weights()
        if weights != self._packed_weights:
            self._packed, self._packed_weights = self._pack_module(), weights
        return self._packed

    def _pack_module(self) -> Packed | None:
        if any(p.device.type != "cpu" for p in self.model.parameters()):
            return None
        keep_freed_memory()
        try:
            return pack_module(self.model, self.capacity, self.bits)
        except UnsupportedError as error:
            if self.bits != 32:
                raise _refused_integers(f"it does not support {error}") from error
            return None


def pack_module(model: "nn.Module", capacity: int, bits: int = 32) -> Packed:
    """Pack a torch module for the engine; `packed_model` describes the arguments and errors."""
    from regard.engine.plan_of_module import plan_of_module

    return packed_model(*plan_of_module(model), capacity, bits)


def _require_engine(model: "nn.Module | StoredModel") -> None:
    """Raise ConfigError if the engine cannot compute the model: it alone has integer weights."""
    if library() is None:
        raise _refused_integers("it was not built on this machine")
    if isinstance(model, StoredModel):
        return
    if any(p.device.type != "cpu" for p in model.parameters()):
        raise _refused_integers("it computes on CPUs only")
    from regard.engine.plan_of_module import plan_of_module

    try:
        plan_of_module(model)
    except UnsupportedError as error:
        raise _refused_integers(f"it does not support {error}") from error


def _refused_integers(reason: str) -> ConfigError:
    return ConfigError(
        "integer weights (--int8, --int4; in Python, bits) are computed by the compiled engine, "
        f"and {reason}: compute this model without them."
    )


class _Modules:
    """The modules of a model in one list, to detect changes of modules, hooks and weights.

    It is used for each line that is translated alone: torch's own traversal takes ten times as
    long.
    """

    def __init__(self, model: "nn.Module") -> None:
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
