"""Models that decode with the engine: the same Stepper interface and outputs, faster.

Cached keys and values are never moved. Each step allocates a block with those of its rows; a state
maps each of its rows to the row of each block that it descends from (`ancestors`). Reordering a
beam only reorders this small table.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.engine import library as c
from regard.engine.checks import check_ids, check_length
from regard.engine.encoders import EncoderStack, FastEncoder
from regard.engine.numerics import Ids, Scores
from regard.engine.packing import PackedStack, Weights, stacked
from regard.engine.plan import EncoderPlan, ModelPlan, Plan, Stack, UnsupportedError
from regard.hardware import num_threads

Numbers = NDArray[np.int32]
Numbers64 = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """Keys and values of all source tokens, for all decoder layers, and the range of each row."""

    memory: Scores  # (source tokens, layers · 2 · H · K)
    start: Numbers  # (rows,), index of the first token of each row
    count: Numbers  # (rows,)

    def reorder(self, rows: Ids) -> "Source":
        return replace(self, start=self.start[rows], count=self.count[rows])


@dataclass(frozen=True)
class FastState:
    """The KV cache of some rows: blocks, and the row of each block that a row descends from."""

    length: int = 0
    blocks: tuple[Scores, ...] = ()  # one for each call: (tokens, rows, layers · 2 · keys)
    addresses: Numbers64 | None = None  # (length,), of the rows of each token in memory
    ancestors: Numbers | None = None  # (rows, length)
    source: Source | None = None

    def reorder(self, rows: Ids) -> "FastState":
        return replace(
            self,
            ancestors=None if self.ancestors is None else self.ancestors[rows],
            source=None if self.source is None else self.source.reorder(rows),
        )

    def truncate(self, length: int) -> "FastState":
        ancestors = None if self.ancestors is None else self.ancestors[:, :length]
        addresses = None if self.addresses is None else self.addresses[:length]
        return replace(self, length=length, addresses=addresses, ancestors=ancestors)


class BeamSettings(NamedTuple):
    """Settings of the compiled beam search, those of decoding/beam.py."""

    width: int
    length_penalty: float
    n_best: int
    early_stopping: bool


class FoundHypothesis(NamedTuple):
    """Generated ids without the end token, and their length-normalized log-probability."""

    ids: list[int]
    score: float
    ended_itself: bool  # False if the length limit ended it and the model would continue


class FastDecoder:
    """A packed decoder, with or without cross-attention to a source."""

    def __init__(self, plan: Stack, weights: Weights, capacity: int, bits: int) -> None:
        library = c.library()
        assert library is not None
        self._call, self._greedy = library.regard_step, library.regard_greedy
        self._beam = library.regard_beam
        self.capacity, self.num_embeddings = capacity, plan.num_embeddings
        self.packed = PackedStack(plan, weights, capacity, bits)

    def extend(self, ids: Ids, state: FastState, num_logits: int) -> tuple[Scores, FastState]:
        """Append ids (B, T); return the logits (B, num_logits, V) of the last and the state."""
        rows, count = ids.shape
        stack, past = self.packed.stack, state.length
        check_length(past + count, self.capacity)
        check_ids(ids, self.num_embeddings)
        new = np.empty((count, rows, stack.layers * self.packed.cache_width), np.float32)
        addresses = new.ctypes.data + np.arange(count, dtype=np.int64) * new.strides[0]
        if state.addresses is not None:
            addresses = np.concatenate([state.addresses, addresses])
        own = np.arange(rows, dtype=np.int32)[:, None].repeat(count, axis=1)
        ancestors = _ancestors(state, rows)
        ids_by_step = np.ascontiguousarray(ids.T, dtype=np.int32)
        logits = np.empty((num_logits, rows, stack.vocabulary), np.float32)
        step = _step(ids_by_step, addresses, ancestors, state.source)
        step.count, step.num_logits, step.logits = count, num_logits, logits.ctypes.data
        self._call(ctypes.byref(stack), ctypes.byref(step), num_threads())
        after = replace(
            state,
            length=past + count,
            blocks=(*state.blocks, new),
            addresses=addresses,
            ancestors=np.concatenate([ancestors, own], axis=1),
        )
        return logits.swapaxes(0, 1), after

    def greedy(
        self, ids: Ids, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        """Return the tokens that greedy decoding generates after ids (B,), in one call."""
        longest = max(0, *limits)
        self._check(ids, state, end, longest)
        rows, first = len(ids), ids.astype(np.int32)
        addresses, ancestors = _addresses(state), _ancestors(state, rows)
        max_tokens, counts = np.array(limits, np.int32), np.zeros(rows, np.int32)
        tokens = np.zeros((rows, longest), np.int32)
        greedy = c.Greedy(
            step=_step(first, addresses, ancestors, state.source),
            limits=max_tokens.ctypes.data,
            end=end,
            longest=longest,
            tokens=tokens.ctypes.data,
            counts=counts.ctypes.data,
        )
        self._greedy(ctypes.byref(self.packed.stack), ctypes.byref(greedy), num_threads())
        return [row[:count].tolist() for row, count in zip(tokens, counts, strict=True)]

    def beam(
        self, ids: Ids, state: FastState, end: int, limits: Sequence[int], settings: BeamSettings
    ) -> list[list[FoundHypothesis]]:
        """Return the hypotheses that beam search finds after ids (B,), in one call."""
        longest, count = max(0, *limits), settings.n_best
        self._check(ids, state, end, longest + 1)
        rows, first = len(ids), ids.astype(np.int32)
        addresses, ancestors = _addresses(state), _ancestors(state, rows)
        max_tokens, num_found = np.array(limits, np.int32), np.zeros(rows, np.int32)
        norms = np.array([length**settings.length_penalty for length in range(longest + 2)])
        tokens = np.zeros((rows, count, longest), np.int32)
        counts, ended = np.zeros((rows, count), np.int32), np.zeros((rows, count), np.int32)
        scores = np.zeros((rows, count), np.float32)
        beam = c.Beam(
            step=_step(first, addresses, ancestors, state.source),
            limits=max_tokens.ctypes.data,
            end=end,
            longest=longest,
            width=settings.width,
            n_best=count,
            early_stopping=settings.early_stopping,
            norms=norms.ctypes.data,
            num_found=num_found.ctypes.data,
            tokens=tokens.ctypes.data,
            counts=counts.ctypes.data,
            scores=scores.ctypes.data,
            ended_itself=ended.ctypes.data,
        )
        self._beam(ctypes.byref(self.packed.stack), ctypes.byref(beam), num_threads())
        return [
            [
                FoundHypothesis(
                    tokens[row, n, : counts[row, n]].tolist(),
                    float(scores[row, n]),
                    bool(ended[row, n]),
                )
                for n in range(num_found[row])
            ]
            for row in range(rows)
        ]

    def _check(self, ids: Ids, state: FastState, end: int, new_tokens: int) -> None:
        check_length(state.length + new_tokens, self.capacity)
        check_ids(ids, self.num_embeddings)
        check_ids(np.array(end), self.packed.stack.vocabulary)


def _addresses(state: FastState) -> Numbers64:
    """Return the addresses of the state's cached tokens."""
    return np.zeros(0, np.int64) if state.addresses is None else state.addresses


def _ancestors(state: FastState, rows: int) -> Numbers:
    """Return the state's table of ancestors, which must have a row for each of `rows`."""
    ancestors = np.zeros((rows, 0), np.int32) if state.ancestors is None else state.ancestors
    sources = rows if state.source is None else len(state.source.start)
    if len(ancestors) != rows or sources != rows:
        raise ValueError(f"{rows} rows of ids for a state of {max(len(ancestors), sources)} rows")
    return np.ascontiguousarray(ancestors)


def _step(ids: Numbers, addresses: Numbers64, ancestors: Numbers, source: Source | None) -> c.Step:
    """Return the arguments of a step; the caller keeps the arrays alive."""
    step = c.Step(rows=len(ancestors), past=ancestors.shape[1])
    step.ids, step.cache = ids.ctypes.data, addresses.ctypes.data
    step.ancestors = ancestors.ctypes.data
    if source is not None:
        step.source = source.memory.ctypes.data
        step.source_start, step.source_count = source.start.ctypes.data, source.count.ctypes.data
    return step


class FastModel:
    """Decoding steps of a model whose decoder is packed for the engine."""

    decoder: FastDecoder

    def step(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        logits, state = self.decoder.extend(ids[:, None], state, num_logits=1)
        return logits[:, 0], state

    def extend(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        return self.decoder.extend(ids, state, num_logits=ids.shape[1])

    def greedy(
        self, first: Ids, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        return self.decoder.greedy(first, state, end, limits)

    def beam(
        self, first: Ids, state: FastState, end: int, limits: Sequence[int], settings: BeamSettings
    ) -> list[list[FoundHypothesis]]:
        return self.decoder.beam(first, state, end, limits, settings)


class FastLanguageModel(FastModel):
    def __init__(self, plan: ModelPlan, weights: Weights, capacity: int, bits: int = 32) -> None:
        self.decoder = FastDecoder(plan.decoder, weights, capacity, bits)

    def start(self) -> FastState:
        return FastState()


class FastEncoderDecoder(FastModel):
    def __init__(self, plan: ModelPlan, weights: Weights, capacity: int, bits: int = 32) -> None:
        assert plan.encoder is not None
        # One matrix for the keys and values of all decoder layers: one product for each source.
        # It is packed first, because stacking takes memory.
        cross = [layer.cross for layer in plan.decoder.layers if layer.cross is not None]
        maps = [linear for attention in cross for linear in (attention.key, attention.value)]
        width = plan.decoder.kv_heads * plan.decoder.head_dim
        self.project_source = stacked(maps, weights, bits, min_outputs=width)
        self.decoder = FastDecoder(plan.decoder, weights, capacity, bits)
        self.encoder = EncoderStack(plan.encoder, weights, capacity, bits)

    def start(self, source: Ids, source_mask: NDArray[np.bool_]) -> FastState:
        """Encode sources (B, S); source_mask (B, S): True = real token."""
        count = source_mask.sum(1).astype(np.int32)
        states, starts = self.encoder.states(source[source_mask], count)
        return FastState(source=Source(self.project_source(states), starts[:-1].copy(), count))


def packed_model(
    plan: Plan, weights: Weights, capacity: int, bits: int = 32
) -> FastModel | FastEncoder:
    """Pack the tensors of a plan.

    Args:
        plan: The plan of the model.
        weights: Its tensors by name, of the shapes in the plan.
        capacity: Maximum number of tokens of a source or target.
        bits: 32, or 8 or 4 for integer weights (default: 32).

    Raises:
        UnsupportedError: There is no compiled engine, or it cannot compute this model.
    """
    if c.library() is None:
        raise UnsupportedError("there is no compiled engine")
    if isinstance(plan, EncoderPlan):
        return FastEncoder(plan, weights, capacity, bits)
    if plan.encoder is None:
        return FastLanguageModel(plan, weights, capacity, bits)
    return FastEncoderDecoder(plan, weights, capacity, bits)
