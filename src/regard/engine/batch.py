"""Requests that are decoded together, one step at a time; they join and leave between steps.

Each gets what it gets alone, bit for bit. One step can also extend states of callers that choose
their tokens themselves: prompts, samples, constrained beams.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.engine import library as c
from regard.engine.numerics import Ids, Scores
from regard.engine.search import BeamSettings, FoundHypothesis, Outputs
from regard.engine.states import Extension, FastState, Numbers, Step, address, addresses_of, step_of
from regard.engine.steppers import FastDecoder
from regard.errors import RunError
from regard.hardware import num_threads
from regard.native.library import not_finite

RUNNING, DONE, NOT_FINITE = range(3)  # RequestState in native/engine.h


@dataclass(frozen=True)
class Joining:
    """A request of one row: its last id and the state before it."""

    ids: Ids  # (1,)
    state: FastState
    end: int
    limit: int
    beam: BeamSettings | None = None  # None: greedy decoding


@dataclass
class Advanced:
    """Results of one step."""

    logits: list[Scores]  # (B, num_logits, V) of each extension
    states: list[FastState]  # of each extension
    errors: list[RunError | None]  # of each extension whose logits are not finite
    tokens: dict[int, int]  # of requests in greedy decoding: the id that was appended
    done: dict[int, list[FoundHypothesis]]  # of requests that have ended; they have left
    failed: dict[int, RunError]  # of requests whose logits are not finite; they have left


class DecodingBatch:
    """The requests that a decoder computes together.

    Args:
        decoder: The decoder; one thread at a time calls its batch.
    """

    def __init__(self, decoder: FastDecoder) -> None:
        library = c.library()
        assert library is not None
        self._decoder, self._library = decoder, library
        self._batch = ctypes.c_void_p()
        library.regard_batch(ctypes.byref(decoder.packed.stack), ctypes.byref(self._batch))
        self._outputs: dict[int, tuple[Outputs, FastState]] = {}  # with what the batch points to

    def __del__(self) -> None:
        if getattr(self, "_batch", None):
            self._library.regard_free_batch(self._batch)

    def __len__(self) -> int:
        return len(self._outputs)

    def join(self, request: Joining) -> int:
        """Decode a request from the next step on; return its number."""
        self._decoder.check(
            request.ids, request.state, request.end, request.limit + (request.beam is not None)
        )
        addresses = np.ascontiguousarray(addresses_of(request.state, 1))
        first, past = request.ids.astype(np.int32), np.array([request.state.length], np.int32)
        step = step_of(first, past, addresses, request.state.source)
        outputs = Outputs([request.limit], request.end, request.beam)
        number = ctypes.c_int64()
        self._library.regard_join(
            self._batch, ctypes.byref(step), outputs.decoding, ctypes.byref(number)
        )
        self._outputs[number.value] = outputs, request.state
        return number.value

    def leave(self, number: int) -> None:
        """Drop a request."""
        if self._outputs.pop(number, None) is not None:
            self._library.regard_leave(self._batch, number)

    def advance(self, extensions: Sequence[Extension] = ()) -> Advanced:
        """Compute the next token of every request, and extend the states of callers."""
        step = Step(self._decoder.packed, extensions) if extensions else None
        finite = np.ones(step.arguments.num_outputs if step else 0, np.int32)
        numbers = np.zeros(len(self), np.int64)
        tokens, states = np.zeros(len(self), np.int32), np.zeros(len(self), np.int32)
        progress = c.Progress(0, address(numbers), address(tokens), address(states))
        self._library.regard_advance(
            self._batch,
            None if step is None else ctypes.byref(step.arguments),
            address(finite),
            num_threads(),
            ctypes.byref(progress),
        )
        advanced = Advanced([], [], [], {}, {}, {})
        if step is not None:
            advanced.logits, advanced.states = step.logits, step.states
            advanced.errors = _errors(finite, step.logits)
        self._collect(advanced, numbers, tokens, states)
        return advanced

    def _collect(self, advanced: Advanced, numbers: Ids, tokens: Numbers, states: Numbers) -> None:
        """Fill in the progress of the requests; those that have ended leave."""
        lists = (numbers.tolist(), tokens.tolist(), states.tolist())
        for number, token, state in zip(*lists, strict=True):
            if token >= 0:
                advanced.tokens[number] = token
            if state == DONE:
                outputs, _ = self._outputs[number]
                self._library.regard_found(self._batch, number, outputs.results)
                advanced.done[number] = outputs.hypotheses(0)
            elif state == NOT_FINITE:
                advanced.failed[number] = not_finite("logits")
            if state != RUNNING:
                self.leave(number)


def _errors(finite: Numbers, logits: Sequence[Scores]) -> list[RunError | None]:
    """Return the error of each extension with logits (B, num_logits, V) that are not finite."""
    errors: list[RunError | None] = []
    first = 0
    for part in logits:
        count = part.shape[0] * part.shape[1]
        errors.append(None if finite[first : first + count].all() else not_finite("logits"))
        first += count
    return errors
