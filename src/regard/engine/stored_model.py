"""The model of a run folder, computed by the engine; a torch module only where one is needed."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regard.engine.encoders import FastEncoder
from regard.engine.plan import Plan
from regard.engine.steppers import FastModel, packed_model
from regard.hardware import trim_memory
from regard.missing_modules import required_by
from regard.tensor_files import MappedTensors

if TYPE_CHECKING:
    from torch import nn


class StoredModel:
    """A plan and the tensors in a file.

    Args:
        plan: The plan of the model.
        weights: The tensors of the file, of the shapes in the plan.
        build: Builds the torch module from the same tensors.
    """

    single_sequence = False

    def __init__(
        self, plan: Plan, weights: MappedTensors, build: "Callable[[], nn.Module]"
    ) -> None:
        self._plan, self._weights, self._build = plan, weights, build

    @property
    def is_built(self) -> bool:
        """True if the torch module is there, whose weights may have been changed since."""
        return "module" in vars(self)

    @cached_property
    def module(self) -> Any:
        """The torch module in evaluation mode, built when it is first used."""
        with required_by("the torch module of a model"):
            import torch

            with torch.inference_mode(False):  # it may be used for training, wherever it is used
                return self._build().eval()

    def pack(self, capacity: int, bits: int) -> FastModel | FastEncoder:
        """Pack the tensors for the engine."""
        packed = packed_model(self._plan, self._weights, capacity, bits)
        self._weights.release()
        trim_memory()  # of the parts of stacked matrices
        return packed
