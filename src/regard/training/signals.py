"""Ctrl-C and SIGTERM as requests to stop: the current step is finished and a checkpoint written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """A flag that a signal handler sets."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, number: int, _frame: FrameType | None) -> None:
        """Set the flag; a second Ctrl-C raises KeyboardInterrupt at once."""
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def catch_interrupts() -> Iterator[Interruption]:
    """Within, Ctrl-C and SIGTERM (a cluster's notice) set the flag of what is yielded."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption  # signals belong to the main thread
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, interruption.request)
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
