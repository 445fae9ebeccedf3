"""An encoder whose texts are computed together with those of other threads.

A thread computes all calls of one kind that wait, up to so many tokens, in one call. Each text gets
what it gets alone.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from threading import Condition, Thread
from typing import Any

import numpy as np

from regard.engine.encoders import MAX_TOKENS, FastEncoder, Rows
from regard.engine.pooling import Floats
from regard.serving.batching.work import Check, Work
from regard.serving.tasks.base import current_check

Compute = Callable[[Rows, Rows], Floats]  # of rows of ids, and positions in them if it takes any


class Call(Work[Floats]):
    """Rows of ids for one function of the encoder.

    Args:
        check: Called before it is computed.
        kind: Calls of one kind are computed together.
        compute: The function; it returns `counts` rows of numbers for each row of ids.
        rows: Ids of each text.
        positions: Positions in each text, where the function takes them.
    """

    def __init__(
        self, check: Check, kind: Hashable, compute: Compute, rows: Rows, positions: Rows = ()
    ) -> None:
        super().__init__(check, sum(map(len, rows)))
        self.kind, self.compute, self.rows, self.positions = kind, compute, rows, positions
        self.count = sum(map(len, positions)) if positions else len(rows)  # of rows of the result


class SharedEncoder(FastEncoder):
    """A packed encoder, shared by the threads of a worker.

    Args:
        encoder: The packed encoder.
    """

    def __init__(self, encoder: FastEncoder) -> None:
        self._shared, self.dim = encoder, encoder.dim
        self._waiting: deque[Call] = deque()
        self._changed = Condition()
        self._calls = self._rows = 0
        Thread(target=self._run, name="encoder", daemon=True).start()

    def vectors(self, rows: Rows, pooling: str) -> Floats:
        compute = self._shared.vectors
        return self._answer(("vectors", pooling), lambda rows, _: compute(rows, pooling), rows)

    def class_logits(self, rows: Rows) -> Floats:
        compute = self._shared.class_logits
        return self._answer("class_logits", lambda rows, _: compute(rows), rows)

    def token_logits(self, rows: Rows, positions: Rows) -> Floats:
        return self._answer("token_logits", self._shared.token_logits, rows, positions)

    def stats(self) -> dict[str, Any]:
        """Return the numbers of calls and texts so far."""
        return {"steps": self._calls, "rows": self._rows, "queued": len(self._waiting)}

    def _answer(self, kind: Hashable, compute: Compute, rows: Rows, positions: Rows = ()) -> Floats:
        call = Call(current_check(), kind, compute, rows, positions)
        with self._changed:
            self._waiting.append(call)
            self._changed.notify()
        return call.wait()

    def _run(self) -> None:
        while True:
            if calls := [call for call in self._next() if not call.ended()]:
                self._calls += 1
                self._rows += sum(len(call.rows) for call in calls)
                _compute(calls)

    def _next(self) -> list[Call]:
        """Take the oldest call and those of its kind that wait, as many as fit."""
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            first = self._waiting.popleft()
            taken, tokens = [first], first.tokens
            others, self._waiting = self._waiting, deque()
            for call in others:
                if call.kind == first.kind and tokens + call.tokens <= MAX_TOKENS:
                    taken.append(call)
                    tokens += call.tokens
                else:
                    self._waiting.append(call)
            return taken


def _compute(calls: Sequence[Call]) -> None:
    rows = [row for call in calls for row in call.rows]
    positions = [row for call in calls for row in call.positions]
    try:
        results = calls[0].compute(rows, positions)
    except Exception as error:
        if len(calls) == 1:
            calls[0].fail(error)
        else:  # a text of one of them is refused
            for call in calls:
                _compute([call])
        return
    ends = np.cumsum([call.count for call in calls])
    for call, part in zip(calls, np.split(results, ends[:-1]), strict=True):
        call.deliver(part)
