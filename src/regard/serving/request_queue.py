"""The bounded queue of a model's requests."""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from regard.serving.errors import TooManyRequests

REMEMBERED = 256  # ends of requests, for their rate
RECENT_SECONDS = 30.0
MAX_RETRY_SECONDS = 60.0


class RequestQueue:
    """Places of requests, from their acceptance to their end.

    Args:
        size: Number of places.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._ends: deque[float] = deque(maxlen=REMEMBERED)
        self.taken = 0
        self.last_used = time.monotonic()

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place.

        Raises:
            TooManyRequests: All places are taken.
        """
        if self.taken >= self._size:
            raise TooManyRequests(
                f"{self.taken:,} requests are waiting for this model; send the request later.",
                retry_after=self._seconds_to_empty(),
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self.last_used = time.monotonic()
            self._ends.append(self.last_used)

    def _seconds_to_empty(self) -> float:
        """Return in which time the requests that have places end, at the recent rate."""
        now = time.monotonic()
        recent = [end for end in self._ends if end > now - RECENT_SECONDS]
        if len(recent) < 2:
            return 1.0
        seconds = self.taken * (now - recent[0]) / len(recent)
        return float(min(max(1, math.ceil(seconds)), MAX_RETRY_SECONDS))
