"""What a person sees while they wait: a live bar in a terminal, and nothing where there is none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from regard.evaluation.base import metric_named
from regard.training.events import Evaluated, Event, Step

SMOOTHING = 0.98  # of the loss shown: one batch is noise

Show = Callable[[float, str], None]


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
    def bar(self, title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """A bar that is advanced by calling what it gives with how much more is done."""
        began, done = time.perf_counter(), 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            show(more, f"{done / (time.perf_counter() - began):,.0f} {unit}/s")

        with self._live(title, total) as show:
            yield advance

    @contextmanager
    def counting(self, unit: str) -> Iterator[Callable[[str, int], None]]:
        """A count with its rate, where the total cannot be told: (what is done, how many more)."""
        began = time.perf_counter()
        done: dict[str, int] = {}
        with self.console.status("") as status:

            def advance(doing: str, more: int) -> None:
                done[doing] = done.get(doing, 0) + more
                rate = sum(done.values()) / (time.perf_counter() - began)
                status.update(f"{doing}: {done[doing]:,} {unit}, {rate:,.0f} {unit}/s")

            yield advance

    @contextmanager
    def training(
        self, utilisation: Callable[[float], float | None]
    ) -> Iterator[Callable[[Event], None]]:
        """A bar with loss, tokens a second, how busy the machine is, dev score and time left.

        `utilisation` turns tokens a second into a share of what the machine can do.
        """
        pace = _Pace()
        dev = ""

        def advance(event: Event) -> None:
            nonlocal dev
            if isinstance(event, Evaluated):
                dev = "  dev " + " ".join(_score(*each) for each in event.scores.items())
            if isinstance(event, Step):
                pace.take(event)
                busy = utilisation(pace.rate)
                share = "" if busy is None else f" ({busy:.0%} of peak)"
                status = f"step {event.step:,}  loss {pace.loss:.3f}  {pace.rate:,.0f} tokens/s"
                show(event.progress - pace.shown, status + share + _overflow(event) + dev)
                pace.shown = event.progress

        with self._live("Training", 1.0, TaskProgressColumn()) as show:
            yield advance

    @contextmanager
    def _live(
        self, title: str, total: float | None, done: ProgressColumn | None = None
    ) -> Iterator[Show]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            done or MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeRemainingColumn(),
        )
        quiet = not self.console.is_terminal
        with Progress(*columns, console=self.console, disable=quiet) as progress:
            task = progress.add_task(title, total=total, status="")
            yield lambda more, status: progress.update(task, advance=more, status=status)


class _Pace:
    """Loss and speed, smoothed: one batch is noise."""

    def __init__(self) -> None:
        self.loss, self.rate, self.shown = 0.0, 0.0, 0.0
        self._seen, self._applied, self._last = 0, 0, 0.0

    def take(self, step: Step) -> None:
        if self._seen and step.seconds > self._last:
            rate = step.tokens / (step.seconds - self._last)
            self.rate = _smoothed(self.rate, rate, self._seen - 1)
        self._last = step.seconds
        if step.applied:
            self.loss = _smoothed(self.loss, step.loss, self._applied)
            self._applied += 1
        self._seen += 1


def _smoothed(mean: float, value: float, seen: int) -> float:
    """The mean of the first ones, then an exponential one."""
    weight = min(SMOOTHING, seen / (seen + 1))
    return weight * mean + (1 - weight) * value


def _score(name: str, value: float) -> str:
    metric = metric_named(name)
    return f"{metric.label} {metric.show(value)}"


def _overflow(step: Step) -> str:
    """How many of the words given to experts found no room, where any did."""
    dropped = step.counts.get("dropped", 0)
    return f"  overflow {dropped / step.counts['assignments']:.1%}" if dropped else ""


silent = Reporter(Console(quiet=True))
