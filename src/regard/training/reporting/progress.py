"""Progress of training on a console: messages; live bars on a terminal, lines in a log."""

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
from rich.text import Text

from regard.evaluation.base import metric_named
from regard.training.events import Evaluated, Event, Step
from regard.training.reporting.log_lines import LogLines

SMOOTHING = 0.98  # of the displayed loss, which is noisy in single batches

Show = Callable[[float, str, bool], None]  # more work, status, whether it is complete


class Reporter:
    """Prints messages and shows progress on a console: bars on a terminal, lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, message: str | Text) -> None:
        """Print a message: a text as it is, or one with styles.

        A file gets it on one line, so that a path in it stays whole.
        """
        text = Text(message) if isinstance(message, str) else message
        self.console.print(text, soft_wrap=not self.console.is_terminal)

    @contextmanager
    def busy(self, activity: str) -> Iterator[None]:
        """Show a spinner on a terminal while something of unknown duration runs."""
        with self._spinner(activity):
            yield

    @contextmanager
    def bar(self, title: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
        """Show a bar; yield a function that advances it by a number of units."""
        start, done = time.perf_counter(), 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            show(more, f"{done / (time.perf_counter() - start):,.0f} {unit}/s", False)

        with self._live(title, total, unit) as show:
            yield advance

    @contextmanager
    def counting(self, unit: str) -> Iterator[Callable[[str, int], None]]:
        """Show a count with its rate, where the total is unknown.

        Yields a function that advances the count of an activity by a number of units.
        """
        start = time.perf_counter()
        done: dict[str, int] = {}
        lines: dict[str, LogLines] = {}
        with self._spinner("") as update:

            def advance(activity: str, more: int) -> None:
                done[activity] = done.get(activity, 0) + more
                rate = sum(done.values()) / (time.perf_counter() - start)
                if self.console.is_terminal:
                    update(f"{activity}: {done[activity]:,} {unit}, {rate:,.0f} {unit}/s")
                    return
                if activity not in lines:
                    lines[activity] = LogLines(activity, None, unit, self.say)
                lines[activity].advance(more, f"{rate:,.0f} {unit}/s")

            yield advance

    @contextmanager
    def training(
        self,
        utilization: Callable[[float], float | None],
        unit: str = "tokens",
        targets_per_unit: int = 1,
    ) -> Iterator[Callable[[Event], None]]:
        """Show loss, targets a second, utilization, dev scores and remaining time.

        `utilization` maps targets a second to a fraction of the machine's peak; a unit (token or
        text) has `targets_per_unit` targets. Yields a function of events.
        """
        pace = _Pace()
        dev = ""

        def advance(event: Event) -> None:
            nonlocal dev
            if isinstance(event, Evaluated):
                scores = " ".join(_score(*item) for item in event.scores.items())
                dev = f"  dev {scores}"
                if not self.console.is_terminal:
                    self.say(f"Step {event.step:,}: dev {scores}{', the best' * event.best}")
            if isinstance(event, Step):
                pace.add(event)
                used = utilization(pace.rate)
                share = "" if used is None else f" ({used:.0%} of peak)"
                rate = f"{pace.rate / targets_per_unit:,.0f} {unit}/s"
                status = f"step {event.step:,}  loss {pace.loss:.3f}  {rate}"
                status += share + _overflow(event) + dev
                show(event.progress - pace.shown, status, event.progress >= 1)
                pace.shown = event.progress

        with self._live("Training", 1.0, "") as show:
            yield advance

    @contextmanager
    def _spinner(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a spinner; yield a function that changes its text.

        Without a terminal there is none: it would start a thread for nothing.
        """
        if not self.console.is_terminal:
            yield lambda _: None
            return
        with self.console.status(Text(text)) as status:
            yield lambda new: status.update(Text(new))

    @contextmanager
    def _live(self, title: str, total: float | None, unit: str) -> Iterator[Show]:
        """Show a bar or lines; without a unit, the work is a fraction."""
        if not self.console.is_terminal:
            yield LogLines(title, total, unit, self.say).advance
            return
        done: ProgressColumn = MofNCompleteColumn() if unit else TaskProgressColumn()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            done,
            TextColumn("{task.fields[status]}", markup=False),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(title, total=total, status="")
            yield lambda more, status, _: progress.update(task, advance=more, status=status)


class _Pace:
    """Loss and tokens a second, smoothed."""

    def __init__(self) -> None:
        self.loss, self.rate, self.shown = 0.0, 0.0, 0.0
        self._seen, self._applied, self._last = 0, 0, 0.0

    def add(self, step: Step) -> None:
        if self._seen and step.seconds > self._last:
            rate = step.tokens / (step.seconds - self._last)
            self.rate = _smoothed(self.rate, rate, self._seen - 1)
        self._last = step.seconds
        if step.applied:
            self.loss = _smoothed(self.loss, step.loss, self._applied)
            self._applied += 1
        self._seen += 1


def _smoothed(mean: float, value: float, seen: int) -> float:
    """Return the mean of the first values, then their exponential moving average."""
    weight = min(SMOOTHING, seen / (seen + 1))
    return weight * mean + (1 - weight) * value


def _score(name: str, value: float) -> str:
    metric = metric_named(name)
    return f"{metric.label} {metric.show(value)}"


def _overflow(step: Step) -> str:
    """Return the fraction of assignments to experts that were dropped, if any were."""
    dropped = step.counts.get("dropped", 0)
    return f"  overflow {dropped / step.counts['assignments']:.1%}" if dropped else ""


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that prints texts as they are.

    By default rich interprets [bold] and :cat: in any text, and fails at [/] in a file's name.
    """
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


silent = Reporter(plain_console(quiet=True))
