"""The protocol by which every model is decoded.

state = model.start(…)                      encode the source or begin an empty text
logits, state = model.step(ids, state)      append one token to each row
logits, state = model.extend(ids, state)    append several tokens to each row; logits after each
state = model.prefill(ids, state)           the same without logits: the prompt
state = state.reorder(rows)                 keep, drop or repeat rows
state = state.truncate(length)              drop all but the first `length` tokens

Ids are arrays of int64 and logits arrays of floats, wherever the model computes: `TorchModel` in
engine/torch_model.py converts for a torch module. States are immutable: each call returns a new
state, and an old one can be used again.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from regard.engine.numerics import Ids, Scores
from regard.engine.search import BeamSettings, FoundHypothesis


class State(Protocol):
    """Decoder state of a batch of rows, such as a KV cache."""

    def reorder(self, rows: Ids) -> Self:
        """Return the state of the given rows (R,), in that order."""
        ...


S = TypeVar("S", bound=State)


class Stepper(Protocol[S]):
    """A model that decodes one token at a time."""

    def step(self, ids: Ids, state: S) -> tuple[Scores, S]:
        """Append one id to each row (B,); return logits (B, V) of the next and the new state."""
        ...


@runtime_checkable
class HasFusedGreedy(Protocol):
    """A model that runs the whole greedy loop itself, faster than step by step."""

    def greedy(self, first: Ids, state: Any, end: int, limits: Sequence[int]) -> list[list[int]]:
        """Return the ids that `decoding.greedy.greedy` would return after first (B,)."""
        ...


@runtime_checkable
class StreamsGreedy(Protocol):
    """A model that runs the greedy loop of one row itself and yields its tokens meanwhile."""

    def greedy_stream(self, first: Ids, state: Any, end: int, limit: int) -> Iterator[int]:
        """Yield the ids that `decoding.greedy.greedy` would return after first (1,)."""
        ...


@runtime_checkable
class HasFusedBeam(Protocol):
    """A model that runs the whole beam search itself, faster than step by step."""

    def beam(
        self, first: Ids, state: Any, end: int, limits: Sequence[int], settings: BeamSettings
    ) -> list[list[FoundHypothesis]]:
        """Return the hypotheses that `decoding.beam.beam_search` would return after first (B,)."""
        ...


class Truncatable(State, Protocol):
    """A state that can drop its last tokens: rejected draft tokens."""

    def truncate(self, length: int) -> Self:
        """Return the state after only the first `length` tokens."""
        ...


R = TypeVar("R", bound=Truncatable)


class Prefills(Protocol[R]):
    """A model that appends several tokens in one pass: prompts and draft tokens."""

    def extend(self, ids: Ids, state: R) -> tuple[Scores, R]:
        """Append ids (B, T); return logits (B, T, V) after each of them and the new state."""
        ...

    def prefill(self, ids: Ids, state: R) -> R:
        """Append ids (B, T); return the new state."""
        ...
