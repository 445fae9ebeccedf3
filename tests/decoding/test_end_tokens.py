"""Several end tokens as one: the best score for search, the sum of probabilities for sampling."""

import numpy as np
import pytest
from numpy.typing import NDArray

from regard.decoding.end_tokens import EndTokens
from regard.engine.numerics import softmax

LOGITS = np.array([[0.1, 2.0, 1.0, 0.5, -1.0]])


class Constant:
    """A model with the same logits after every token."""

    def start(self) -> None:
        return None

    def step(self, ids: NDArray, state: None) -> tuple[NDArray, None]:
        return np.broadcast_to(LOGITS, (len(ids), 5)), state

    def extend(self, ids: NDArray, state: None) -> tuple[NDArray, None]:
        return np.broadcast_to(LOGITS, (*ids.shape, 5)), state


def test_search_takes_the_best_end_token() -> None:
    logits, _ = EndTokens(Constant(), [3, 1]).step(np.array([0, 0]), None)
    assert logits[0].tolist() == [LOGITS[0, 0], float("-inf"), 1.0, 2.0, -1.0]
    assert LOGITS.tolist() == [[0.1, 2.0, 1.0, 0.5, -1.0]]  # not changed


def test_sampling_takes_the_sum_of_probabilities() -> None:
    for temperature in (1.0, 0.5, 2.0):
        model = EndTokens(Constant(), [3, 1], temperature)
        logits, _ = model.extend(np.zeros((1, 2), np.int64), None)
        merged = softmax(logits[0, -1] / temperature)
        expected = softmax(LOGITS[0] / temperature)
        assert merged[3] == pytest.approx(expected[3] + expected[1])
        assert merged[[0, 2, 4]] == pytest.approx(expected[[0, 2, 4]])
