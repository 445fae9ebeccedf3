"""The study in a terminal: one line for each head, and what the columns mean."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from regard.insight.heads.columns import Column, columns
from regard.insight.heads.study import Study


def table(study: Study) -> Group:
    """Return the table of the heads, with its legend below."""
    shown = columns(study)
    lines = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for column in shown:
        is_number = column.title not in ("head", "attends to")
        lines.add_column(column.short, justify="right" if is_number else "left", no_wrap=True)
    for statistics in study.heads:
        lines.add_row(*(column.text(statistics).removesuffix(" token") for column in shown))
    return Group(lines, "", _legend(shown))


def _legend(shown: list[Column]) -> Table:
    """Return one line for each column, with its unit; one for all shares."""
    legend = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    legend.add_column(no_wrap=True)
    legend.add_column(no_wrap=True)
    legend.add_column()
    for column in shown:
        if not column.is_share:
            legend.add_row(column.short, column.unit, Text(column.meaning, style="dim"))
    shares = [column.short for column in shown if column.is_share]
    meaning = "share of the attention weights on that token (last: the end of the text)"
    legend.add_row(f"{shares[0]} … {shares[-1]}", "%", Text(meaning, style="dim"))
    return legend
