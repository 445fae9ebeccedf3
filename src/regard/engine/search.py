"""Requests that the engine decodes whole: greedily, or by beam search as decoding/beam.py does."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from regard.engine import library as c
from regard.engine.states import address


class BeamSettings(NamedTuple):
    """Settings of the compiled beam search, those of decoding/beam.py."""

    width: int
    length_penalty: float
    n_best: int
    early_stopping: bool


class FoundHypothesis(NamedTuple):
    """Generated ids without the end token, and their length-normalized log-probability."""

    ids: list[int]
    score: float  # of beam search; 0 of greedy decoding
    ended_itself: bool  # False if the length limit ended it and the model would continue


class Outputs:
    """Memory for the outputs of some requests, and how the engine decodes them.

    Args:
        limits: Maximum number of new tokens of each request.
        end: Id of the end token.
        beam: Settings of beam search; None for greedy decoding.
    """

    def __init__(self, limits: Sequence[int], end: int, beam: BeamSettings | None = None) -> None:
        self._limits, longest = limits, max(0, *limits)
        shape = (len(limits), 1 if beam is None else beam.n_best)
        self._tokens = np.zeros((*shape, longest), np.int32)
        self._counts, self._ended = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self._scores = np.zeros(shape, np.float32)
        penalty = 0 if beam is None else beam.length_penalty
        self._norms = np.array([length**penalty for length in range(longest + 2)])
        width, early = (0, False) if beam is None else (beam.width, beam.early_stopping)
        norms = address(self._norms)
        decoding = [c.Decoding(limit, end, width, shape[1], early, norms) for limit in limits]
        self.decoding = (c.Decoding * len(limits))(*decoding)
        arrays = (self._tokens, self._counts, self._scores, self._ended)
        results = [
            c.Found(0, *(address(array) + row * array.strides[0] for array in arrays))
            for row in range(len(limits))
        ]
        self.results = (c.Found * len(limits))(*results)

    def hypotheses(self, row: int) -> list[FoundHypothesis]:
        """Return the outputs of a request, best first."""
        limit, tokens = self._limits[row], self._tokens[row].ravel()
        return [
            FoundHypothesis(
                tokens[n * limit : n * limit + self._counts[row, n]].tolist(),
                float(self._scores[row, n]),
                bool(self._ended[row, n]),
            )
            for n in range(self.results[row].count)
        ]
