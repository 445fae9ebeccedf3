"""The highest logits of each row and its log Σ exp, for beam search."""

import numpy as np

from regard.engine.library import library
from regard.engine.numerics import Ids, Scores, highest, log_sum_exp
from regard.hardware import num_threads


def rank(logits: Scores, count: int) -> tuple[Scores, Ids, Scores]:
    """Return the `count` highest logits (R, V) of each row, their indices, and log Σ exp (R,)."""
    compiled = library()
    rows, size = logits.shape
    if not 0 < count <= size:
        raise ValueError(f"the {count} highest of {size} logits")
    if compiled is None or logits.dtype != np.float32:
        return *highest(logits, count), log_sum_exp(logits)
    logits = np.ascontiguousarray(logits)
    values, sums = np.empty((rows, count), np.float32), np.empty(rows, np.float32)
    indices = np.empty((rows, count), np.int32)
    compiled.regard_rank(
        logits.ctypes.data,
        rows,
        size,
        count,
        sums.ctypes.data,
        values.ctypes.data,
        indices.ctypes.data,
        num_threads(),
    )
    return values, indices.astype(np.int64), sums
