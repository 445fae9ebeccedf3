"""End tokens: a Stepper for a model with several tokens that end a text, as one.

The algorithms of decoding know one end token. Here it gets the score of all, and the others are
never chosen. Greedy decoding and beam search take the best of them, so that they end where the
model prefers any of them to every other token. Sampling takes their sum at its temperature, which
is the probability that the text ends.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.engine.numerics import Ids, Scores, log_sum_exp


class EndTokens:
    """A language model whose end tokens are merged into the first."""

    def __init__(self, model: Any, ends: Sequence[int], temperature: float | None = None) -> None:
        """Wrap a model.

        Args:
            model: The model to decode.
            ends: Ids of all end tokens, the one that decoding knows first.
            temperature: That of sampling; None for greedy decoding and beam search.
        """
        self._model, self._ends, self._temperature = model, list(ends), temperature

    def start(self) -> Any:
        return self._model.start()

    def step(self, ids: Ids, state: Any) -> tuple[Scores, Any]:
        logits, state = self._model.step(ids, state)
        return self._merged(logits), state

    def extend(self, ids: Ids, state: Any) -> tuple[Scores, Any]:
        logits, state = self._model.extend(ids, state)
        return self._merged(logits), state

    def prefill(self, ids: Ids, state: Any) -> Any:
        return self._model.prefill(ids, state)

    def _merged(self, logits: Scores) -> Scores:
        ends = logits[..., self._ends]
        if self._temperature:
            end = log_sum_exp(ends / self._temperature) * self._temperature
        else:
            end = ends.max(-1)
        merged = logits.copy()
        merged[..., self._ends] = -np.inf
        merged[..., self._ends[0]] = end
        return merged
