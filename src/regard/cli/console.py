"""What the commands print with: messages and bars on standard error, results on standard output."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.training.progress import Reporter


def reporter() -> Reporter:
    return Reporter(Console(stderr=True))


def score_table(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table("direction", box=None, header_style="bold", pad_edge=False)
    for column in ("BLEU", "chrF", "exact", "pairs"):
        table.add_column(column, justify="right")
    for direction, score in scores.items():
        table.add_row(
            direction,
            f"{score['bleu']:.1f}",
            f"{score['chrf']:.1f}",
            f"{score['exact']:.1%}",
            f"{score['pairs']:,}",
        )
    return table
