"""What the commands print with: messages and bars on standard error, results on standard output."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from regard.training.reporting.progress import Reporter


def reporter() -> Reporter:
    return Reporter(Console(stderr=True))


def show_scores(run: Path, report: Reporter) -> None:
    """What a finished run is worth, and where it is; of several processes, one says it."""
    from regard import run_folder

    if os.environ.get("RANK", "0") == "0":
        scores = run_folder.read(run).details.get("scores", {})
        if scores and all(isinstance(each, Mapping) for each in scores.values()):
            report.console.print(score_table(scores))
        report.say(f"The model is in {run}.")


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
