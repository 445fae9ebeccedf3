"""Progress as lines of a log, where the console is not a terminal.

A line comes with every tenth of the work, but not within TENTH_SECONDS of the line before, and at
least every LINE_SECONDS.
"""

import time
from collections.abc import Callable

TENTH_SECONDS, LINE_SECONDS = 5.0, 30.0


class LogLines:
    """Lines of one activity: its title, how much is done, a status, and the time left."""

    def __init__(
        self, title: str, total: float | None, unit: str, say: Callable[[str], None]
    ) -> None:
        """`total` is the amount of work, in units; None if it is unknown."""
        self._title, self._total, self._unit, self._say = title, total, unit, say
        self._start = self._last = time.perf_counter()
        self._done, self._tenths = 0.0, 0
        self._first: float | None = None  # done with the first advance: resumed work

    def advance(self, more: float, status: str, complete: bool = False) -> None:
        """Count work that is done; print a line if one is due, or the work is `complete`."""
        self._done += more
        self._first = self._done if self._first is None else self._first
        now = time.perf_counter()
        tenths = int(10 * self._done / self._total) if self._total else 0
        pause = TENTH_SECONDS if tenths > self._tenths else LINE_SECONDS
        if complete or now - self._last >= pause:
            self._last, self._tenths = now, tenths
            parts = (self._share(), status, "" if complete else self._left(now))
            self._say(f"{self._title}: {', '.join(part for part in parts if part)}")

    def _share(self) -> str:
        if not self._unit:  # the work is measured as a fraction
            return f"{self._done:.0%}"
        of = "" if self._total is None else f" of {self._total:,.0f}"
        return f"{self._done:,.0f}{of} {self._unit}"

    def _left(self, now: float) -> str:
        done = self._done - (self._first or 0)
        if not self._total or not done:
            return ""
        return f"{duration((now - self._start) * (self._total - self._done) / done)} left"


def duration(seconds: float) -> str:
    """Return a time for people, rounded: 45 s, 12 min, 1.5 h."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 99.5 else f"{minutes / 60:.1f} h"
