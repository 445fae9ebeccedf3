"""Models that decode with the engine: the same Stepper interface and outputs, faster."""

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.engine import library as c
from regard.engine.checks import check_ids
from regard.engine.encoders import EncoderStack, FastEncoder
from regard.engine.numerics import Ids, Scores
from regard.engine.packing import Matrix, PackedStack, Weights, stacked
from regard.engine.plan import EncoderPlan, ModelPlan, Plan, Stack, UnsupportedError
from regard.engine.search import BeamSettings, FoundHypothesis, Outputs
from regard.engine.states import (
    Extension,
    FastState,
    PackedDecoder,
    Source,
    Step,
    address,
    addresses_of,
    concatenated_sources,
    step_of,
)
from regard.hardware import num_threads

MAX_SOURCE_TOKENS = 1024  # that are encoded together: their states fit the second-level cache
MAX_ROWS = 256  # hypotheses that are decoded together: more take memory and save no time


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
        self._step, self._decode = library.regard_step, library.regard_decode
        stack = PackedStack(plan, weights, capacity, bits, packed)
        self.packed = PackedDecoder(stack, capacity, plan.num_embeddings)

    def extend(self, ids: Ids, state: FastState, num_logits: int) -> tuple[Scores, FastState]:
        """Append ids (B, T); return the logits (B, num_logits, V) of the last and the state."""
        (logits,), (after,) = self.extend_all([Extension(ids, state, num_logits)])
        return logits, after

    def extend_all(self, extensions: Sequence[Extension]) -> tuple[list[Scores], list[FastState]]:
        """Append ids to several states in one call, whatever their lengths.

        Returns:
            The logits (B, num_logits, V) and the new state of each.
        """
        step = Step(self.packed, extensions)
        stack = ctypes.byref(self.packed.stack)
        self._step(stack, ctypes.byref(step.arguments), num_threads())
        return step.logits, step.states

    def decode(
        self,
        ids: Ids,
        state: FastState,
        end: int,
        limits: Sequence[int],
        beam: BeamSettings | None = None,
    ) -> list[list[FoundHypothesis]]:
        """Return what greedy decoding or beam search generates after ids (B,), in one call."""
        rows, first = len(ids), ids.astype(np.int32)
        self.check(ids, state, end, max(0, *limits) + (beam is not None))
        addresses = np.ascontiguousarray(addresses_of(state, rows))
        past = np.full(rows, state.length, np.int32)
        outputs = Outputs(limits, end, beam)
        step = step_of(first, past, addresses, state.source)
        stack = ctypes.byref(self.packed.stack)
        decoding, results = outputs.decoding, outputs.results
        self._decode(stack, ctypes.byref(step), decoding, results, MAX_ROWS, num_threads())
        return [outputs.hypotheses(row) for row in range(rows)]

    def check(self, ids: Ids, state: FastState, end: int, new_tokens: int) -> None:
        """Refuse a request that the tables of the decoder do not fit."""
        self.packed.check(ids, state.length + new_tokens)
        check_ids(np.array(end), self.packed.stack.vocabulary)


class FastModel:
    """Decoding steps of a model whose decoder is packed for the engine."""

    decoder: FastDecoder

    def step(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        logits, state = self.decoder.extend(ids[:, None], state, num_logits=1)
        return logits[:, 0], state

    def extend(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        return self.decoder.extend(ids, state, num_logits=ids.shape[1])

    def prefill(self, ids: Ids, state: FastState) -> FastState:
        return self.decoder.extend(ids, state, num_logits=0)[1]

    def greedy(
        self, first: Ids, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        return [best.ids for (best,) in self.decoder.decode(first, state, end, limits)]

    def beam(
        self, first: Ids, state: FastState, end: int, limits: Sequence[int], settings: BeamSettings
    ) -> list[list[FoundHypothesis]]:
        return self.decoder.decode(first, state, end, limits, settings)


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
        return FastState(source=self.encode(source[source_mask], source_mask.sum(1)))

    def encode(self, ids: Ids, counts: Ids) -> Source:
        """Encode sources whose ids stand one after another, so many for each."""
        sources: list[Source] = []
        row = first = 0
        while row < len(counts) or not sources:
            ends = first + np.cumsum(counts[row:])
            rows = max(1, int(np.searchsorted(ends, first + MAX_SOURCE_TOKENS, side="right")))
            own = counts[row : row + rows]
            sources.append(self._encode(ids[first : first + int(own.sum())], own))
            row, first = row + rows, first + int(own.sum())
        return concatenated_sources(sources)

    def _encode(self, ids: Ids, counts: Ids) -> Source:
        states, starts = self.encoder.states(ids, counts)
        memory = self.project_source(states)
        addresses = address(memory) + starts[:-1].astype(np.int64) * memory.strides[0]
        return Source((memory,), addresses, counts.astype(np.int32))


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
