"""Progress shown on a terminal during training."""

import io
import math
import threading
from pathlib import Path

from rich.console import Console
from rich.table import Table

from regard.training.events import Ended, Evaluated, Event, Saved, Step
from regard.training.reporting import log_lines
from regard.training.reporting.progress import Reporter, plain_console


def step(number: int, loss: float = 2.0) -> Step:
    return Step(number, loss, 500, 1.0, 0.5 * number, number / 4, applied=math.isfinite(loss))


EVENTS: list[Event] = [
    step(1),
    step(2),
    Evaluated(2, {"loss": 1.25, "bleu": 34.5678}, True, 1.0),
    Saved(2, Path("checkpoints/step-000002")),
    step(3),
    step(4),
    Ended("all 4 steps are done", True),
]


def shown(terminal: bool, events: list[Event] = EVENTS) -> str:
    text = io.StringIO()
    report = Reporter(Console(file=text, force_terminal=terminal, width=160))
    with report.training(lambda rate: rate / 2000) as advance:
        for event in events:
            advance(event)
    with report.bar("Scoring", 10, "pairs") as advance_by:
        advance_by(10)
    with report.counting("records") as count:
        count("Reading", 1000)
    with report.busy("Thinking …"):
        pass
    return text.getvalue()


def test_a_terminal_shows_loss_throughput_utilization_and_scores() -> None:
    text = shown(terminal=True)
    assert "step 4  loss 2.000  1,000 tokens/s (50% of peak)  dev loss 1.2500 BLEU 34.6" in text
    assert "100%" in text
    assert "10/10" in text
    assert "pairs/s" in text


def test_a_non_finite_loss_is_not_shown() -> None:
    text = shown(terminal=True, events=[step(1, float("nan")), step(2), step(3, float("inf"))])
    assert "loss 2.000" in text
    assert "nan" not in text
    assert "inf" not in text


def test_unknown_peak_performance_shows_no_utilization() -> None:
    text = io.StringIO()
    report = Reporter(Console(file=text, force_terminal=True, width=160))
    with report.training(lambda _: None) as advance:
        advance(step(1))
        advance(step(2))
    assert "1,000 tokens/s" in text.getvalue()
    assert "of peak" not in text.getvalue()


def test_without_a_terminal_evaluations_and_the_last_step_are_lines() -> None:
    assert shown(terminal=False).splitlines() == [
        "Step 2: dev loss 1.2500 BLEU 34.6, the best",
        "Training: 100%, step 4  loss 2.000  1,000 tokens/s (50% of peak)"
        "  dev loss 1.2500 BLEU 34.6",
    ]


def test_without_a_terminal_a_line_comes_with_every_tenth_or_after_a_while(monkeypatch) -> None:
    now = 0.0
    monkeypatch.setattr(log_lines.time, "perf_counter", lambda: now)
    lines: list[str] = []
    log = log_lines.LogLines("Scoring", 1000, "pairs", lines.append)
    for _ in range(1000):
        now += 0.1
        log.advance(1, "10 pairs/s")
    assert lines[0] == "Scoring: 100 of 1,000 pairs, 10 pairs/s, 91 s left"
    assert len(lines) == 10
    lines.clear()
    log = log_lines.LogLines("Reading", None, "records", lines.append)
    for _ in range(1000):
        now += 0.1
        log.advance(1, "10 records/s")
    assert lines[0] == "Reading: 301 records, 10 records/s"
    assert len(lines) == 3


def test_messages_are_shown_without_a_terminal() -> None:
    text = io.StringIO()
    Reporter(Console(file=text, force_terminal=False, width=160)).say("Step 4: done.")
    assert text.getvalue() == "Step 4: done.\n"


def test_texts_are_printed_as_they_are() -> None:
    """Names and data may have what rich takes for markup, or for the name of an emoji."""
    odd = "runs/[/] [bold]x[/red] :cat: [link=a]"
    for terminal in (False, True):
        text = io.StringIO()
        report = Reporter(plain_console())
        report.console.file, report.console._force_terminal = text, terminal
        report.say(f"The model is in {odd}.")
        with report.busy(odd), report.counting(odd) as count:
            count(odd, 7)
        with report.bar(odd, 1, odd) as advance:
            advance(1)
        table = Table(odd, title=odd)
        table.add_row(odd)
        report.console.print(table)
        assert f"The model is in {odd}." in text.getvalue()
        assert text.getvalue().count(odd) >= 4


def test_message_is_one_line_of_a_file() -> None:
    text = io.StringIO()
    path = "/".join(["long name"] * 30)
    Reporter(Console(file=text)).say(f"The model is in {path}.")
    assert text.getvalue() == f"The model is in {path}.\n"


def test_without_a_terminal_no_thread_is_started() -> None:
    """A thread that cannot start for lack of memory would be waited for without end."""
    reporter = Reporter(Console(file=io.StringIO(), force_terminal=False))
    before = threading.active_count()
    with reporter.counting("records") as advance, reporter.busy("scoring"):
        advance("Reading", 3)
        assert threading.active_count() == before
