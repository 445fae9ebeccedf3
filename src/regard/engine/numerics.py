"""Functions of rows of scores: log Σ exp, softmax, log σ and the highest scores."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[Any]  # float32, or float64 where a model computes it
Ids = NDArray[np.int64]


def log_sum_exp(scores: Scores) -> Scores:
    """Return log Σ exp over the last dimension; NaN where no score is finite, or one is ∞."""
    largest = scores.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        return np.asarray(np.log(np.exp(scores - largest).sum(-1)) + largest[..., 0])


def log_softmax(scores: Scores) -> Scores:
    """Return the log-probabilities (…, V) of scores (…, V)."""
    return np.asarray(scores - log_sum_exp(scores)[..., None])


def log_sigmoid(scores: Scores) -> Scores:
    """Return log σ(x) of each number, computed for each by itself."""
    return np.asarray(-np.logaddexp(np.zeros_like(scores), -scores))


def softmax(scores: Scores) -> Scores:
    """Return the probabilities (…, V) of scores (…, V), NaN for scores that are not finite."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(-1, keepdims=True))


def highest(scores: Scores, count: int) -> tuple[Scores, Ids]:
    """Return the `count` highest scores (R, N) of each row, and their indices; ties by index."""
    lowest = np.partition(scores, scores.shape[1] - count, axis=1)[:, -count]  # of those returned
    indices = np.empty((len(scores), count), np.int64)
    for row, limit, best in zip(scores, lowest, indices, strict=True):
        above = np.flatnonzero(row > limit)
        best[: len(above)] = above[np.argsort(-row[above], kind="stable")]
        equal = np.flatnonzero(~((row > limit) | (row < limit)))  # or NaN, which callers refuse
        best[len(above) :] = equal[: count - len(above)]
    return np.take_along_axis(scores, indices, 1), indices
