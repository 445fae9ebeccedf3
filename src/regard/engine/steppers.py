"""Models that decode with the engine: the same Stepper interface and outputs, faster.

Cached keys and values are never moved. Each step allocates a block with those of its new tokens,
and a state has their address for each token of each of its rows. Reordering a beam only reorders
this small table.
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
from regard.engine.packing import Matrix, PackedStack, Weights, stacked
from regard.engine.plan import EncoderPlan, ModelPlan, Plan, Stack, UnsupportedError
from regard.hardware import num_threads

Numbers = NDArray[np.int32]
Addresses = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """Keys and values of the source tokens of some rows, for all decoder layers."""

    blocks: tuple[Scores, ...]  # (source tokens, layers · 2 · H · K)
    addresses: Addresses  # (rows,), of the first token of each row
    count: Numbers  # (rows,)

    def reorder(self, rows: Ids) -> "Source":
        return replace(self, addresses=self.addresses[rows], count=self.count[rows])


@dataclass(frozen=True)
class FastState:
    """The KV cache of some rows: blocks, and the address of each token of each row in them."""

    blocks: tuple[Scores, ...] = ()  # one for each call: (rows, tokens, layers · 2 · keys)
    addresses: Addresses | None = None  # (rows, length)
    source: Source | None = None

    @property
    def length(self) -> int:
        return 0 if self.addresses is None else self.addresses.shape[1]

    def reorder(self, rows: Ids) -> "FastState":
        return replace(
            self,
            addresses=None if self.addresses is None else self.addresses[rows],
            source=None if self.source is None else self.source.reorder(rows),
        )

    def truncate(self, length: int) -> "FastState":
        return replace(
            self, addresses=None if self.addresses is None else self.addresses[:, :length]
        )


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
        self._call, self._greedy = library.regard_step, library.regard_greedy
        self._beam = library.regard_beam
        self.capacity, self.num_embeddings = capacity, plan.num_embeddings
        self.packed = PackedStack(plan, weights, capacity, bits, packed)

    def extend(self, ids: Ids, state: FastState, num_logits: int) -> tuple[Scores, FastState]:
        """Append ids (B, T); return the logits (B, num_logits, V) of the last and the state."""
        rows, count = ids.shape
        check_length(state.length + count, self.capacity)
        check_ids(ids, self.num_embeddings)
        stack = self.packed.stack
        block = np.empty((rows, count, stack.layers * self.packed.cache_width), np.float32)
        tokens = np.arange(rows * count, dtype=np.int64).reshape(rows, count)
        new = block.ctypes.data + tokens * block.strides[1]
        addresses = np.concatenate([_addresses(state, rows), new], axis=1)
        flat_ids = np.ascontiguousarray(ids, dtype=np.int32)
        starts = np.arange(0, rows * count + 1, count, dtype=np.int32)
        past = np.full(rows, state.length, np.int32)
        outputs = np.ascontiguousarray(tokens[:, count - num_logits :], dtype=np.int32)
        logits = np.empty((rows, num_logits, stack.vocabulary), np.float32)
        step = _step(flat_ids, past, addresses, state.source)
        step.starts, step.outputs = starts.ctypes.data, outputs.ctypes.data
        step.num_outputs, step.logits = outputs.size, logits.ctypes.data
        self._call(ctypes.byref(stack), ctypes.byref(step), num_threads())
        return logits, replace(state, blocks=(*state.blocks, block), addresses=addresses)

    def extend_each(
        self, ids: Sequence[Ids], states: Sequence[FastState]
    ) -> tuple[Scores, list[FastState]]:
        """Append one or more ids to states of one row each, whatever their lengths.

        Args:
            ids: Ids of each row (T,).
            states: The state of each row.

        Returns:
            The logits after the last id of each row (B, V), and the new states.
        """
        stack = self.packed.stack
        counts = [len(row) for row in ids]
        for state, count in zip(states, counts, strict=True):
            check_length(state.length + count, self.capacity)
        flat_ids = np.concatenate(ids).astype(np.int32)
        check_ids(flat_ids, self.num_embeddings)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        block = np.empty((1, len(flat_ids), stack.layers * self.packed.cache_width), np.float32)
        new = block.ctypes.data + np.arange(len(flat_ids), dtype=np.int64)[None] * block.strides[1]
        after = [
            replace(
                state,
                blocks=(*state.blocks, block),
                addresses=np.concatenate([_addresses(state, 1), new[:, start : start + count]], 1),
            )
            for state, start, count in zip(states, starts, counts, strict=False)
        ]
        past = np.array([state.length for state in states], np.int32)
        addresses = np.concatenate([_addresses(state, 1) for state in after], axis=1)
        outputs = starts[1:] - 1
        logits = np.empty((len(ids), stack.vocabulary), np.float32)
        source = _joined([state.source for state in states if state.source is not None])
        step = _step(flat_ids, past, addresses, source)
        step.starts, step.outputs = starts.ctypes.data, outputs.ctypes.data
        step.num_outputs, step.logits = len(outputs), logits.ctypes.data
        self._call(ctypes.byref(stack), ctypes.byref(step), num_threads())
        return logits, after

    def greedy(
        self, ids: Ids, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        """Return the tokens that greedy decoding generates after ids (B,), in one call."""
        longest = max(0, *limits)
        self._check(ids, state, end, longest)
        rows, first = len(ids), ids.astype(np.int32)
        addresses = np.ascontiguousarray(_addresses(state, rows))
        past = np.full(rows, state.length, np.int32)
        max_tokens, counts = np.array(limits, np.int32), np.zeros(rows, np.int32)
        tokens = np.zeros((rows, longest), np.int32)
        greedy = c.Greedy(
            step=_step(first, past, addresses, state.source),
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
        addresses = np.ascontiguousarray(_addresses(state, rows))
        past = np.full(rows, state.length, np.int32)
        max_tokens, num_found = np.array(limits, np.int32), np.zeros(rows, np.int32)
        norms = np.array([length**settings.length_penalty for length in range(longest + 2)])
        tokens = np.zeros((rows, count, longest), np.int32)
        counts, ended = np.zeros((rows, count), np.int32), np.zeros((rows, count), np.int32)
        scores = np.zeros((rows, count), np.float32)
        beam = c.Beam(
            step=_step(first, past, addresses, state.source),
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


def _addresses(state: FastState, rows: int) -> Addresses:
    """Return the addresses of the state's tokens; the state must have so many rows."""
    addresses = np.zeros((rows, 0), np.int64) if state.addresses is None else state.addresses
    sources = rows if state.source is None else len(state.source.count)
    if len(addresses) != rows or sources != rows:
        raise ValueError(f"{rows} rows of ids for a state of {max(len(addresses), sources)} rows")
    return addresses


def _joined(sources: Sequence[Source]) -> Source | None:
    """Return the sources of several states as one."""
    if not sources:
        return None
    return Source(
        tuple(block for source in sources for block in source.blocks),
        np.concatenate([source.addresses for source in sources]),
        np.concatenate([source.count for source in sources]),
    )


def _step(ids: Numbers, past: Numbers, addresses: Addresses, source: Source | None) -> c.Step:
    """Return the arguments of a step; the caller keeps the arrays alive."""
    step = c.Step(rows=len(past), ids=ids.ctypes.data, past=past.ctypes.data)
    step.cache = addresses.ctypes.data
    if source is not None:
        step.source, step.source_count = source.addresses.ctypes.data, source.count.ctypes.data
    return step


class FastModel:
    """Decoding steps of a model whose decoder is packed for the engine."""

    decoder: FastDecoder

    def step(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        logits, state = self.decoder.extend(ids[:, None], state, num_logits=1)
        return logits[:, 0], state

    def extend(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        return self.decoder.extend(ids, state, num_logits=ids.shape[1])

    def extend_each(
        self, ids: Sequence[Ids], states: Sequence[FastState]
    ) -> tuple[Scores, list[FastState]]:
        return self.decoder.extend_each(ids, states)

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
        packed: dict[str, Matrix] = {}  # the encoder may have the embeddings of the output layer
        self.decoder = FastDecoder(plan.decoder, weights, capacity, bits, packed)
        self.encoder = EncoderStack(plan.encoder, weights, capacity, bits, packed)

    def start(self, source: Ids, source_mask: NDArray[np.bool_]) -> FastState:
        """Encode sources (B, S); source_mask (B, S): True = real token."""
        count = source_mask.sum(1).astype(np.int32)
        states, starts = self.encoder.states(source[source_mask], count)
        memory = self.project_source(states)
        addresses = memory.ctypes.data + starts[:-1].astype(np.int64) * memory.strides[0]
        return FastState(source=Source((memory,), addresses, count))


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
