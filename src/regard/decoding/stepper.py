"""The one protocol by which every model is decoded, whatever is inside it.

state = model.start(…)                    read the prompt; how is the model's own affair
logits, state = model.step(ids, state)    say one more word in each row
state = state.reorder(rows)               keep, drop or repeat rows
"""

from typing import Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    def reorder(self, rows: Tensor) -> Self: ...


S = TypeVar("S", bound=State)


class Stepper(Protocol[S]):
    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Logits (B, V) after one more id in each row (B,), and the state after it."""
        ...
