"""Units of work of the scheduler: what a thread submits, and what it waits for."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.engine.batch import Joining
from regard.engine.numerics import Ids, Scores
from regard.engine.search import FoundHypothesis
from regard.engine.states import Extension, FastState
from regard.serving.tasks.base import Canceled

T = TypeVar("T")

Check = Callable[[], None]  # raises where the request must end


class Work(Generic[T]):
    """Something that a thread waits for.

    Args:
        check: Called before each step; what it raises ends the work.
        tokens: Number of tokens that it appends at once.
    """

    def __init__(self, check: Check, tokens: int = 0) -> None:
        self.check, self.tokens = check, tokens
        self._done = Lock()
        self._done.acquire()
        self._is_abandoned = False
        self._result: T | None = None
        self._error: BaseException | None = None

    def deliver(self, result: T) -> None:
        """Return the result to the waiting thread."""
        self._result = result
        self._done.release()

    def fail(self, error: BaseException) -> None:
        """Raise an error in the waiting thread."""
        self._error = error
        self._done.release()

    def ended(self) -> bool:
        """Return True if the request has been ended from outside; its thread gets the reason."""
        try:
            if self._is_abandoned:
                raise Canceled
            self.check()
        except BaseException as reason:
            self.fail(reason)
            return True
        return False

    def abandon(self) -> None:
        """End the work before the next step: its thread no longer waits for it."""
        self._is_abandoned = True

    def wait(self) -> T:
        """Wait for the result."""
        self._done.acquire()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # of type T once it is delivered


class Encode(Work[FastState]):
    """Sources to encode: ids (B, S) and which of them are tokens."""

    def __init__(self, check: Check, source: Ids, source_mask: NDArray[np.bool_]) -> None:
        super().__init__(check, int(source_mask.sum()))
        self.source, self.source_mask = source, source_mask


class Extend(Work[tuple[Scores, FastState]]):
    """Ids to append to a state, in one step: few enough not to delay the others."""

    def __init__(self, check: Check, extension: Extension) -> None:
        super().__init__(check, extension.ids.size)
        self.extension = extension


class Decode(Work[list[list[FoundHypothesis]]]):
    """Rows to decode whole.

    Args:
        check: Called before each step.
        rows: Requests of one row each.
        on_token: Called by the scheduler with each token of greedy decoding, and with None after
            the last.
    """

    def __init__(
        self,
        check: Check,
        rows: Sequence[Joining],
        on_token: Callable[[int | None], Any] = lambda _: None,
    ) -> None:
        super().__init__(check)
        self.rows, self.on_token = rows, on_token
        self.num_joined = 0  # rows that are or were in the batch
        self.numbers: dict[int, int] = {}  # row, by its number in the batch
        self.hypotheses: dict[int, list[FoundHypothesis]] = {}  # by row

    def deliver(self, result: list[list[FoundHypothesis]]) -> None:
        super().deliver(result)
        self.on_token(None)

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.on_token(None)

    @property
    def beam(self) -> int:
        """Rows of the decoder that the next row needs."""
        beam = self.rows[self.num_joined].beam
        return 1 if beam is None else beam.width
