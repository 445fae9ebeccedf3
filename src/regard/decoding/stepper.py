"""The one protocol by which every model is decoded, whatever is inside it.

state = model.start(…)                      read the prompt; how is the model's own affair
logits, state = model.step(ids, state)      say one more word in each row
logits, state = model.extend(ids, state)    say several words in each row, and hear of each
state = state.reorder(rows)                 keep, drop or repeat rows
state = state.cut(length)                   take back what was said after the first so many words

States do not change: what follows from one is another, and an old one can be gone back to.
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from torch import Tensor


class State(Protocol):
    def reorder(self, rows: Tensor) -> Self: ...


S = TypeVar("S", bound=State)


class Stepper(Protocol[S]):
    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Logits (B, V) after one more id in each row (B,), and the state after it."""
        ...


@runtime_checkable
class HasFusedGreedy(Protocol):
    """What can go on by itself, word by word, faster than it is asked for each."""

    def greedy(self, first: Tensor, state: Any, end: int, limits: Sequence[int]) -> list[list[int]]:
        """The likeliest words after first (B,), as `decoding.greedy` would find them."""
        ...


class Truncatable(State, Protocol):
    def cut(self, length: int) -> Self:
        """The state when only the first `length` words had been said."""
        ...


R = TypeVar("R", bound=Truncatable)


class Prefills(Protocol[R]):
    """What reads several words at once, as prompts and guesses are read."""

    def extend(self, ids: Tensor, state: R) -> tuple[Tensor, R]:
        """Logits (B, T, V) after each of the new ids (B, T), and the state after them."""
        ...
