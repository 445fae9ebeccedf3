"""Tokens with their log-probabilities, of given texts and while a text is generated.

They are those of the model: neither the temperature nor logits processors change them. Several end
tokens count as one, which has the sum of their probabilities.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.decoding.greedy import ChooseToken
from regard.engine.numerics import Ids, Scores, highest, log_softmax, log_sum_exp


@dataclass(frozen=True)
class ScoredToken:
    """A token, its log-probability, and the most likely tokens in its place, best first."""

    id: int
    log_prob: float = float("nan")
    top: tuple[tuple[int, float], ...] = ()


def log_probs(logits: Scores, ends: Sequence[int]) -> Scores:
    """Return the log-probabilities (…, V) of logits (…, V), those of all end tokens at the first.

    Args:
        logits: Logits of the model.
        ends: Ids of the tokens that end a text.
    """
    scores = log_softmax(logits)
    if len(ends) > 1:
        end = log_sum_exp(scores[..., ends])
        scores[..., ends] = -np.inf
        scores[..., ends[0]] = end
    return scores


def scored_tokens(scores: Scores, ids: Sequence[int] | Ids, top: int) -> Iterator[ScoredToken]:
    """Yield a token for each row of log-probabilities (R, V).

    Args:
        scores: Log-probabilities.
        ids: The token of each row (R,).
        top: Number of the most likely tokens to add to each.
    """
    own = scores[np.arange(len(scores)), ids].tolist()
    if top == 0:
        yield from map(ScoredToken, map(int, ids), own)
        return
    best, best_ids = highest(scores, min(top, scores.shape[1]))
    for token, log_prob, others, values in zip(ids, own, best_ids, best, strict=True):
        alternatives = tuple(zip(others.tolist(), values.tolist(), strict=True))
        yield ScoredToken(int(token), log_prob, alternatives)


class ScoringStepper:
    """A Stepper that computes the steps of a model and scores the tokens that are chosen.

    Args:
        model: The model to decode.
        ends: Ids of the tokens that end a text.
        top: Number of the most likely tokens to add to each.
    """

    def __init__(self, model: Any, ends: Sequence[int], top: int) -> None:
        self._model, self._ends, self._top = model, ends, top
        self._log_probs: Scores = np.empty((0, 0))
        self.chosen: dict[int, ScoredToken] = {}  # by row, at the last step

    def step(self, ids: Ids, state: Any) -> tuple[Scores, Any]:
        logits, state = self._model.step(ids, state)
        self._log_probs = log_probs(logits, self._ends)  # processors may change the logits in place
        return logits, state

    def scoring(self, choose: ChooseToken) -> ChooseToken:
        """Return the function `choose` that also scores the tokens it picks."""

        def choose_and_score(logits: Scores, rows: Sequence[int], step: int) -> Ids:
            ids = choose(logits, rows, step)
            tokens = scored_tokens(self._log_probs, ids, self._top)
            self.chosen = dict(zip(rows, tokens, strict=True))
            return ids

        return choose_and_score
