"""What is shown while one waits."""

import io

from rich.console import Console

from regard.training.loop import Progress
from regard.training.progress import Reporter


def shown(terminal: bool) -> str:
    text = io.StringIO()
    report = Reporter(Console(file=text, force_terminal=terminal, width=120))
    with report.training(4) as step:
        for number in range(1, 5):
            step(Progress(number, loss=2.0, tokens=500, seconds=0.5 * number))
    with report.bar("Scoring", 10, "pairs") as advance:
        advance(10)
    return text.getvalue()


def test_a_terminal_sees_loss_rate_and_count() -> None:
    text = shown(terminal=True)
    assert "loss 2.000  1,000 tokens/s" in text
    assert "4/4" in text
    assert "10/10" in text
    assert "pairs/s" in text


def test_where_there_is_no_terminal_nothing_is_shown() -> None:
    assert shown(terminal=False) == ""
