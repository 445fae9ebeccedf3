"""Console output: messages and progress bars on standard error, results on standard output."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from regard.training.reporting.progress import Reporter, plain_console


def reporter() -> Reporter:
    """Return a reporter that writes to standard error."""
    return Reporter(plain_console(stderr=True))


def show_scores(run: Path, report: Reporter) -> None:
    """Print the scores of a finished run and its folder, from the main process only."""
    from regard import run_folder

    if os.environ.get("RANK", "0") == "0":
        scores = run_folder.read(run).details.get("scores", {})
        if scores and all(isinstance(score, Mapping) for score in scores.values()):
            report.console.print(score_table(scores))
        report.say(f"The model is in {run}.")


def score_table(scores: Mapping[str, Mapping[str, Any]]) -> Table:
    """Table of a translator's scores: a row for each direction, a column for each metric."""
    from regard.evaluation.base import metrics_of
    from regard.evaluation.texts import TranslationMetric

    first = next(iter(scores.values()))
    metrics = [metric for metric in metrics_of(TranslationMetric) if metric.name in first]
    table = Table("direction", box=None, header_style="bold", pad_edge=False)
    for column in (*(metric.label for metric in metrics), "pairs"):
        table.add_column(column, justify="right")
    for direction, score in scores.items():
        shown = [metric.show(score[metric.name]) for metric in metrics]
        table.add_row(direction, *shown, f"{score['pairs']:,}")
    return table
