"""A model whose decoding steps are computed together with those of other threads.

It has the interface of a packed model (decoding/stepper.py), so that predictors and algorithms run
unchanged, each request in a thread of its own, and get what they get alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from queue import SimpleQueue
from typing import Any

import numpy as np

from regard.engine.batch import Joining
from regard.engine.encoders import FastEncoder
from regard.engine.numerics import Ids, Scores
from regard.engine.search import BeamSettings, FoundHypothesis
from regard.engine.select import EngineModel
from regard.engine.states import Extension, FastState
from regard.engine.steppers import FastEncoderDecoder, FastModel
from regard.serving.batching.prefix_cache import CHUNK, PrefixCache, digests
from regard.serving.batching.scheduler import Scheduler
from regard.serving.batching.shared_encoder import SharedEncoder
from regard.serving.batching.work import Decode, Encode, Extend
from regard.serving.tasks.base import current_check

PREFIX_BYTES = 256 << 20


class SharedModel:
    """A packed model, shared by the threads of a worker.

    Args:
        model: The packed model; only the thread of the scheduler calls it.
    """

    def __init__(self, model: FastModel) -> None:
        self._model = model
        self.scheduler = Scheduler(model.decoder, self._encode)
        packed = model.decoder.packed
        token_bytes = 4 * packed.stack.layers * packed.packed.cache_width
        self.prefixes = PrefixCache(PREFIX_BYTES, token_bytes)

    def start(self, *source: Any) -> FastState:
        """Encode sources (B, S) with their mask, or begin an empty text."""
        if not source:
            return FastState()
        return self.scheduler.run(Encode(current_check(), *source)).wait()

    def step(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        logits, state = self._extend(ids[:, None], state, num_logits=1)
        return logits[:, 0], state

    def extend(self, ids: Ids, state: FastState) -> tuple[Scores, FastState]:
        parts = []
        for start in range(0, ids.shape[1], CHUNK):
            part = ids[:, start : start + CHUNK]
            logits, state = self._extend(part, state, num_logits=part.shape[1])
            parts.append(logits)
        return np.concatenate(parts, axis=1), state

    def prefill(self, ids: Ids, state: FastState) -> FastState:
        """Append a prompt; what it shares with an earlier one is not computed again."""
        is_cached = len(ids) == 1 and state.length == 0 and state.source is None
        keys = list(digests(ids[0])) if is_cached else []
        count, cached = self.prefixes.longest(keys)
        state = state if cached is None else cached
        for start in range(count * CHUNK, ids.shape[1], CHUNK):
            _, state = self._extend(ids[:, start : start + CHUNK], state, num_logits=0)
            if keys and start // CHUNK < len(keys):
                self.prefixes.add(keys[start // CHUNK], state)
        return state

    def greedy(
        self, first: Ids, state: FastState, end: int, limits: Sequence[int]
    ) -> list[list[int]]:
        return [best.ids for (best,) in self._decode(first, state, end, limits, None)]

    def beam(
        self, first: Ids, state: FastState, end: int, limits: Sequence[int], settings: BeamSettings
    ) -> list[list[FoundHypothesis]]:
        return self._decode(first, state, end, limits, settings)

    def greedy_stream(self, first: Ids, state: FastState, end: int, limit: int) -> Iterator[int]:
        """Yield the ids that greedy decoding appends to one row, as they are computed."""
        tokens: SimpleQueue[int | None] = SimpleQueue()
        work = Decode(current_check(), _rows(first, state, end, [limit], None), tokens.put)
        self.scheduler.run(work)
        try:
            while (token := tokens.get()) is not None:
                yield token
            work.wait()
        finally:
            work.abandon()  # the caller may need no more tokens

    def stats(self) -> dict[str, Any]:
        """Return the numbers of steps, of their rows, and of cached chunks of prompts so far."""
        numbers = asdict(self.scheduler.statistics)
        return {**numbers, "prefix_hits": self.prefixes.hits, "prefix_misses": self.prefixes.misses}

    def _decode(
        self,
        first: Ids,
        state: FastState,
        end: int,
        limits: Sequence[int],
        beam: BeamSettings | None,
    ) -> list[list[FoundHypothesis]]:
        rows = _rows(first, state, end, limits, beam)
        return self.scheduler.run(Decode(current_check(), rows)).wait()

    def _extend(self, ids: Ids, state: FastState, num_logits: int) -> tuple[Scores, FastState]:
        return self.scheduler.run(Extend(current_check(), Extension(ids, state, num_logits))).wait()

    def _encode(self, works: list[Encode]) -> None:
        """Encode the sources of several works in one call."""
        model = self._model
        assert isinstance(model, FastEncoderDecoder)
        ids = [work.source[work.source_mask] for work in works]
        counts = [work.source_mask.sum(1) for work in works]
        try:
            source = model.encode(np.concatenate(ids), np.concatenate(counts))
        except Exception as error:
            _encode_alone(model, works, error)
            return
        first = 0
        for work in works:
            rows = np.arange(first, first + len(work.source))
            work.deliver(FastState(source=source.reorder(rows)))
            first += len(rows)


def _encode_alone(model: FastEncoderDecoder, works: list[Encode], error: Exception) -> None:
    """Encode each work by itself: one of them has an id or a length that the model refuses."""
    for work in works:
        if len(works) == 1:
            work.fail(error)
            return
        try:
            work.deliver(model.start(work.source, work.source_mask))
        except Exception as own_error:
            work.fail(own_error)


def _rows(
    first: Ids, state: FastState, end: int, limits: Sequence[int], beam: BeamSettings | None
) -> list[Joining]:
    """Return a request for each row of a state."""
    return [
        Joining(first[row : row + 1], state.reorder(np.array([row])), end, limit, beam)
        for row, limit in enumerate(limits)
    ]


def share(predictor: Any) -> SharedModel | SharedEncoder | None:
    """Let the threads that use a predictor share its steps, where the engine computes it.

    Returns:
        What they share; None if torch must compute the model.
    """
    engine_model: EngineModel = predictor.engine_model
    packed = engine_model.packed
    if packed is None:
        return None
    shared = SharedEncoder(packed) if isinstance(packed, FastEncoder) else SharedModel(packed)
    engine_model.share(shared)
    return shared
