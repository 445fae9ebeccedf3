"""What a person sees while they wait: a live bar in a terminal, and nothing where there is none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from regard.training.loop import Progress as Step

SMOOTHING = 0.98  # of the loss shown: one batch is noise

Show = Callable[[int, str], None]


class Reporter:
    """Says things and shows bars on a console; bars only where the console is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False)

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """A sign of life while something runs whose length cannot be told."""
        with self.console.status(doing):
            yield

    @contextmanager
    def bar(self, title: str, total: int, unit: str) -> Iterator[Callable[[int], None]]:
        """A bar that is advanced by calling what it gives with how much more is done."""
        began, done = time.perf_counter(), 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            show(more, f"{done / (time.perf_counter() - began):,.0f} {unit}/s")

        with self._live(title, total) as show:
            yield advance

    @contextmanager
    def training(self, steps: int) -> Iterator[Callable[[Step], None]]:
        """A bar with loss, target tokens a second and time left."""
        loss, tokens = 0.0, 0

        def advance(step: Step) -> None:
            nonlocal loss, tokens
            weight = min(SMOOTHING, 1 - 1 / step.step)
            loss = weight * loss + (1 - weight) * step.loss
            tokens += step.tokens
            show(1, f"loss {loss:.3f}  {tokens / step.seconds:,.0f} tokens/s")

        with self._live("Training", steps) as show:
            yield advance

    @contextmanager
    def _live(self, title: str, total: int) -> Iterator[Show]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
        )
        quiet = not self.console.is_terminal
        with Progress(*columns, console=self.console, disable=quiet) as progress:
            task = progress.add_task(title, total=total, status="")
            yield lambda more, status: progress.update(task, advance=more, status=status)


silent = Reporter(Console(quiet=True))
