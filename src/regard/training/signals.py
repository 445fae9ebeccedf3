"""Ctrl-C and SIGTERM as a wish to stop: the step at hand is finished and a checkpoint written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interruption:
    """Has anybody asked to stop?"""

    def __init__(self) -> None:
        self.requested = False

    def request(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt  # asked twice: at once, then
        self.requested = True


@contextmanager
def catch_interrupts() -> Iterator[Interruption]:
    """Within, Ctrl-C and SIGTERM (a cluster's notice) only ask; elsewhere they do as always."""
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
