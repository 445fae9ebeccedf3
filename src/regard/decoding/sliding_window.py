"""Sliding window: a Stepper that generates past the end of a model's context.

When the context is full, all but its last three quarters are dropped, and the rest is encoded again
from position 0, so each token is predicted from at least that many before it. Dropping one token at
each step would cost a whole forward pass for every token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.engine.numerics import Ids, Scores

RETAINED = 3 / 4  # of the context


def retained_tokens(context: int, bos: int) -> int:
    """Number of tokens left when the window slides: the `bos` ones of every text, and the last."""
    return max(int(context * RETAINED), bos + 1)


@dataclass(frozen=True)
class SlidingState:
    """State of the wrapped model, and the ids (B, T) that it encodes."""

    inner: Any
    ids: Ids

    def reorder(self, rows: Ids) -> "SlidingState":
        return SlidingState(self.inner.reorder(rows), self.ids[rows])


class SlidingWindow:
    """A language model that generates texts of any length; `bos` ids stay at the beginning."""

    def __init__(self, model: Any, context: int, bos: Sequence[int]) -> None:
        self._model, self._context, self._bos = model, context, list(bos)

    def start(self) -> SlidingState:
        return SlidingState(self._model.start(), np.empty((0, 0), np.int64))

    def extend(self, ids: Ids, state: SlidingState) -> tuple[Scores, SlidingState]:
        """Append a prompt, which must fit the context."""
        assert not state.ids.size
        logits, inner = self._model.extend(ids, state.inner)
        return logits, SlidingState(inner, ids)

    def prefill(self, ids: Ids, state: SlidingState) -> SlidingState:
        """Append a prompt, which must fit the context."""
        assert not state.ids.size
        return SlidingState(self._model.prefill(ids, state.inner), ids)

    def step(self, ids: Ids, state: SlidingState) -> tuple[Scores, SlidingState]:
        inner, encoded = state.inner, state.ids
        if encoded.shape[1] == self._context:
            encoded = self._slide(encoded)
            inner = self._model.prefill(encoded, self._model.start())
        logits, inner = self._model.step(ids, inner)
        previous = encoded if encoded.size else np.empty((len(ids), 0), np.int64)
        return logits, SlidingState(inner, np.concatenate([previous, ids[:, None]], axis=1))

    def _slide(self, ids: Ids) -> Ids:
        bos = np.tile(np.array(self._bos, np.int64), (len(ids), 1))
        rest = retained_tokens(self._context, len(self._bos)) - len(self._bos)
        return np.concatenate([bos, ids[:, ids.shape[1] - rest :]], axis=1)
