"""Encoders that the engine computes: the states of texts, their pooled vectors and their logits.

The ids of the texts stand one after another, without padding. Each number is computed from its own
text alone, in one order: it has the same bits alone and in any batch.
"""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.engine import library as c
from regard.engine.checks import check_ids, check_length
from regard.engine.packing import (
    Matrix,
    PackedStack,
    PackedTransform,
    Weights,
    floats,
    packed_output,
)
from regard.engine.plan import EncoderPlan, Stack
from regard.engine.pooling import Floats, Starts, attention_pool, pool
from regard.hardware import num_threads
from regard.native.library import not_finite

MAX_TOKENS = 4096  # of one call: more take memory and save no time

Rows = Sequence[Sequence[int]]


class EncoderStack:
    """The packed blocks of an encoder."""

    def __init__(
        self,
        plan: Stack,
        weights: Weights,
        capacity: int,
        bits: int,
        packed: dict[str, Matrix] | None = None,
    ) -> None:
        library = c.library()
        assert library is not None
        self._encode = library.regard_encode
        self.capacity, self.num_embeddings = capacity, plan.num_embeddings
        self.packed = PackedStack(plan, weights, capacity, bits, packed)

    def states(self, ids: NDArray[Any], counts: NDArray[Any]) -> tuple[Floats, Starts]:
        """Encode texts.

        Args:
            ids: Tokens of all texts, one after another.
            counts: Number of tokens of each text.

        Returns:
            The states (tokens, D), and the index of the first token of each text and after the
            last.
        """
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        check_length(int(counts.max(initial=0)), self.capacity)
        check_ids(ids, self.num_embeddings)
        tokens = ids.astype(np.int32)
        states = np.empty((len(tokens), self.packed.stack.dim), np.float32)
        encoding = c.Encoding(
            sentences=len(counts),
            tokens=len(tokens),
            ids=tokens.ctypes.data,
            starts=starts.ctypes.data,
            states=states.ctypes.data,
        )
        self._encode(ctypes.byref(self.packed.stack), ctypes.byref(encoding), num_threads())
        return states, starts


class FastEncoder:
    """A packed encoder, with the pooling, the transform and the output that follow it, if any."""

    def __init__(self, plan: EncoderPlan, weights: Weights, capacity: int, bits: int = 32) -> None:
        self.encoder = EncoderStack(plan.encoder, weights, capacity, bits)
        self.dim, self._pooling = plan.encoder.dim, plan.pooling
        query = None if plan.pooling is None else plan.pooling.query
        self._query = None if query is None else floats(weights[query])
        self._transform = (
            None if plan.transform is None else PackedTransform(plan.transform, weights, bits)
        )
        self._output = None if plan.output is None else packed_output(plan.output, weights, bits)

    def vectors(self, rows: Rows, pooling: str) -> Floats:
        """Return the pooled states (B, D) of rows of ids: their mean, first or max."""
        batches = [pool(pooling, *self._states(batch)) for batch in _batches(rows)]
        return _finite(_joined(batches, self.dim), "states")

    def class_logits(self, rows: Rows) -> Floats:
        """Return the logits of the classes (B, classes) for rows of ids."""
        batches = [self._pooled(*self._states(batch)) for batch in _batches(rows)]
        return _finite(self._outputs(_joined(batches, self.dim)), "logits")

    def token_logits(self, rows: Rows, positions: Rows) -> Floats:
        """Return the logits (N, V) at the N positions that are given for each row of ids."""
        selected, remaining = [], iter(positions)
        for batch in _batches(rows):
            states, starts = self._states(batch)
            for start, row in zip(starts[:-1], remaining, strict=False):
                selected.append(states[start + np.asarray(row, np.int64)])
        return _finite(self._outputs(_joined(selected, self.dim)), "logits")

    def _states(self, rows: Rows) -> tuple[Floats, Starts]:
        counts = np.array([len(row) for row in rows])
        return self.encoder.states(np.concatenate([np.asarray(row) for row in rows]), counts)

    def _pooled(self, states: Floats, starts: Starts) -> Floats:
        assert self._pooling is not None
        if self._query is not None:
            return attention_pool(self._query, states, starts)
        return pool(self._pooling.kind, states, starts)

    def _outputs(self, states: Floats) -> Floats:
        assert self._output is not None
        return self._output(states if self._transform is None else self._transform(states))


def _batches(rows: Rows) -> Iterator[Rows]:
    """Yield rows of at most MAX_TOKENS tokens together, or one that has more."""
    start = tokens = 0
    for number, row in enumerate(rows):
        if tokens and tokens + len(row) > MAX_TOKENS:
            yield rows[start:number]
            start, tokens = number, 0
        tokens += len(row)
    if start < len(rows):
        yield rows[start:]


def _joined(parts: Sequence[Floats], dim: int) -> Floats:
    return np.concatenate([np.empty((0, dim), np.float32), *parts])


def _finite(results: Floats, noun: str) -> Floats:
    if not np.isfinite(results).all():
        raise not_finite(noun)
    return results
