"""Pooling of the states of each text into one vector, as layers/pooling/ computes it with torch.

The vector of a text is computed from its own states alone, in one order.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.engine import library as c
from regard.hardware import num_threads

Floats = NDArray[np.float32]
Starts = NDArray[np.int32]

# From the states (T, D) of a text to a vector (D,).
POOLINGS: Mapping[str, Callable[[Floats], Any]] = {
    "mean": lambda states: states.mean(0),
    "first": lambda states: states[0],
    "max": lambda states: states.max(0),
}


def pool(kind: str, states: Floats, starts: Starts) -> Floats:
    """Pool states (tokens, D) into a vector for each text; text n begins at token starts[n]."""
    vectors = np.empty((len(starts) - 1, states.shape[1]), np.float32)
    for vector, (start, end) in zip(vectors, pairwise(starts), strict=True):
        vector[:] = POOLINGS[kind](states[start:end])
    return vectors


def attention_pool(query: Floats, states: Floats, starts: Starts) -> Floats:
    """Pool states (tokens, D) by attention with a learned query (D,)."""
    library = c.library()
    assert library is not None
    sentences, dim = len(starts) - 1, states.shape[1]
    vectors = np.empty((sentences, dim), np.float32)
    library.regard_pool(
        query.ctypes.data,
        states.ctypes.data,
        starts.ctypes.data,
        sentences,
        dim,
        vectors.ctypes.data,
        num_threads(),
    )
    return vectors
