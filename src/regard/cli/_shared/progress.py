"""Progress of a command on standard error: a bar on a terminal, lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from regard.cli._shared.streams import echo


@contextmanager
def progress_bar(title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    """Show progress; yield a function that advances it by a number of units.

    The library that draws bars is not imported where there is no terminal.
    """
    if sys.stderr.isatty():
        from regard.cli._shared.console import reporter

        with reporter().bar(title, total, unit) as advance:
            yield advance
        return
    from regard.training.reporting.log_lines import LogLines

    lines = LogLines(title, total, unit, lambda line: echo(line, err=True))
    start, done = time.perf_counter(), 0

    def advance_lines(more: int) -> None:
        nonlocal done
        done += more
        lines.advance(more, f"{done / (time.perf_counter() - start):,.0f} {unit}/s")

    yield advance_lines
