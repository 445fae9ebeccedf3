"""A torch module as a Stepper: arrays in and out, tensors on the module's device within."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.engine.numerics import Ids, Scores


@dataclass(frozen=True)
class TorchState:
    """State of a torch module between two calls."""

    state: Any
    device: torch.device

    @property
    def length(self) -> int:
        return int(getattr(self.state, "length", 0))

    def reorder(self, rows: Ids) -> "TorchState":
        with torch.inference_mode():
            return TorchState(self.state.reorder(_tensor(rows, self.device)), self.device)

    def truncate(self, length: int) -> "TorchState":
        with torch.inference_mode():
            return TorchState(self.state.truncate(length), self.device)


class TorchModel:
    """The Stepper of an autoregressive torch module."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @torch.inference_mode()
    def start(self, *source: NDArray[Any]) -> TorchState:
        """Return the state before the first token, given the source and its mask, if any."""
        device = self.device
        return TorchState(self.model.start(*(_tensor(part, device) for part in source)), device)

    @torch.inference_mode()
    def step(self, ids: Ids, state: TorchState) -> tuple[Scores, TorchState]:
        logits, after = self.model.step(_tensor(ids, state.device), state.state)
        return _array(logits), TorchState(after, state.device)

    @torch.inference_mode()
    def extend(self, ids: Ids, state: TorchState) -> tuple[Scores, TorchState]:
        logits, after = self.model.extend(_tensor(ids, state.device), state.state)
        return _array(logits), TorchState(after, state.device)

    def prefill(self, ids: Ids, state: TorchState) -> TorchState:
        return self.extend(ids, state)[1]


def _tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def _array(logits: Tensor) -> Scores:
    """Return logits as an array, without a copy on a CPU; numpy has no bfloat16."""
    precise = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    array: Scores = precise.cpu().numpy()
    return array
