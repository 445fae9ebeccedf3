"""The scheduler: a thread that computes one step after another for all requests of a model.

Before each step waiting sources are encoded together, and waiting rows join the batch while it has
room: one of each request in turn, so that a request of many texts does not delay the others. A step
appends one token to every row of the batch and, in the same call, the ids of callers that choose
their tokens themselves, the oldest first. A request that is canceled leaves before the next step.
No request waits for the end of another: its wait is bounded by the rows that are in the batch and
the lengths that they may have.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, TypeVar

from regard.engine.batch import Advanced, DecodingBatch
from regard.engine.steppers import FastDecoder
from regard.serving.batching.work import Decode, Encode, Extend, Work

W = TypeVar("W", bound=Work[Any])

EncodeSources = Callable[[list[Encode]], None]  # encodes and delivers

MAX_ROWS = 256  # of the batch: hypotheses of beams, and texts in greedy decoding
MAX_ENCODED_TOKENS = 1024  # before each step
MAX_EXTENDED_TOKENS = 256  # in each step


@dataclass
class Statistics:
    """Numbers of a scheduler since it was started."""

    steps: int = 0
    rows: int = 0  # of all steps
    tokens: int = 0  # generated in whole searches
    queued: int = 0  # works that no step serves yet


class Scheduler:
    """The batch of a decoder, and the thread that advances it.

    Args:
        decoder: The decoder.
        encode: Encodes the sources of some works together and delivers the states.
    """

    def __init__(self, decoder: FastDecoder, encode: EncodeSources) -> None:
        self._decoder, self._encode = decoder, encode
        self._batch = DecodingBatch(decoder)
        self._submitted: deque[Work[Any]] = deque()  # by other threads
        self._changed = Condition()
        self._encoding: deque[Encode] = deque()
        self._extending: deque[Extend] = deque()
        self._joining: deque[Decode] = deque()  # rows that wait
        self._decoding: dict[int, Decode] = {}  # by number in the batch
        self._rows = 0  # of the batch, each as wide as its beam
        self.statistics = Statistics()
        Thread(target=self._run, name="scheduler", daemon=True).start()

    def run(self, work: W) -> W:
        """Submit work; the caller waits for it."""
        with self._changed:
            self._submitted.append(work)
            self._changed.notify()
        return work

    def _run(self) -> None:
        while True:
            self._receive()
            try:
                self._serve()
            except Exception as error:  # too little memory, or a defect: of this step's requests
                self._fail_all(error)

    def _receive(self) -> None:
        """Sort submitted work; wait for some where there is nothing to do."""
        with self._changed:
            while not (self._submitted or self._has_work()):
                self._changed.wait()
            submitted, self._submitted = self._submitted, deque()
        for work in submitted:
            if isinstance(work, Encode):
                self._encoding.append(work)
            elif isinstance(work, Extend):
                self._extending.append(work)
            elif isinstance(work, Decode):
                self._joining.append(work)

    def _has_work(self) -> bool:
        return bool(self._encoding or self._extending or self._joining or self._decoding)

    def _serve(self) -> None:
        self._drop_ended()
        if sources := _first(self._encoding, MAX_ENCODED_TOKENS):
            self._encode(sources)
        self._join()
        extended = _first(self._extending, MAX_EXTENDED_TOKENS)
        if not (extended or self._decoding):
            return
        self.statistics.steps += 1
        self.statistics.rows += self._rows + len(extended)
        self.statistics.queued = len(self._encoding) + len(self._extending) + len(self._joining)
        try:
            advanced = self._batch.advance([work.extension for work in extended])
        except Exception as error:
            _fail(extended, error)
            raise
        self._deliver_extended(extended, advanced)
        self._deliver_decoded(advanced)

    def _drop_ended(self) -> None:
        """Let requests leave that are canceled or out of time."""
        _remove_ended(self._encoding)
        _remove_ended(self._extending)
        for decode in _remove_ended(self._joining):
            self._leave(decode)
        for decode in {id(work): work for work in self._decoding.values()}.values():
            if decode.ended():
                self._leave(decode)

    def _leave(self, work: Decode) -> None:
        for number in list(work.numbers):
            self._remove(number)
            self._batch.leave(number)

    def _remove(self, number: int) -> tuple[Decode, int]:
        """Forget a row that is no longer in the batch; return its work and its index."""
        work = self._decoding.pop(number)
        row = work.numbers.pop(number)
        beam = work.rows[row].beam
        self._rows -= 1 if beam is None else beam.width
        return work, row

    def _join(self) -> None:
        """Let waiting rows join the batch while it has room, one of each request in turn."""
        while self._joining:
            work = self._joining[0]
            if self._rows and self._rows + work.beam > MAX_ROWS:
                return
            self._joining.popleft()
            width = work.beam
            try:
                number = self._batch.join(work.rows[work.num_joined])
            except Exception as error:  # an id or a length that the model does not take
                self._leave(work)
                work.fail(error)
                continue
            self._rows += width
            self._decoding[number] = work
            work.numbers[number] = work.num_joined
            work.num_joined += 1
            if work.num_joined < len(work.rows):
                self._joining.append(work)

    def _deliver_extended(self, extended: list[Extend], advanced: Advanced) -> None:
        for work, logits, state, error in zip(
            extended, advanced.logits, advanced.states, advanced.errors, strict=True
        ):
            if error is None:
                work.deliver((logits, state))
            else:
                work.fail(error)

    def _deliver_decoded(self, advanced: Advanced) -> None:
        self.statistics.tokens += len(advanced.tokens)
        for number, token in advanced.tokens.items():
            self._decoding[number].on_token(token)
        for number, hypotheses in advanced.done.items():
            work, row = self._remove(number)
            work.hypotheses[row] = hypotheses
            if len(work.hypotheses) == len(work.rows):
                work.deliver([work.hypotheses[row] for row in range(len(work.rows))])
        for number, error in advanced.failed.items():
            if number in self._decoding:
                work, _ = self._remove(number)
                self._leave(work)
                if work in self._joining:
                    self._joining.remove(work)
                work.fail(error)

    def _fail_all(self, error: Exception) -> None:
        """Fail all rows of the batch, whose step is incomplete, and begin another batch."""
        _fail({id(work): work for work in self._decoding.values()}.values(), error)
        waiting = [work for work in self._joining if not work.numbers]
        self._joining = deque(waiting)
        self._decoding.clear()
        self._rows = 0
        self._batch = DecodingBatch(self._decoder)


def _first(queue: "deque[W]", max_tokens: int) -> list[W]:
    """Take work from the beginning of a queue: at least one, and not many tokens."""
    taken: list[W] = []
    tokens = 0
    while queue and (not taken or tokens + queue[0].tokens <= max_tokens):
        taken.append(queue.popleft())
        tokens += taken[-1].tokens
    return taken


def _remove_ended(queue: "deque[W]") -> list[W]:
    ended = [work for work in queue if work.ended()]
    for work in ended:
        queue.remove(work)
    return ended


def _fail(works: Iterable[Work[Any]], error: BaseException) -> None:
    for work in works:
        work.fail(error)
