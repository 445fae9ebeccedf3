"""The study in a terminal: one line for each head."""

from rich.table import Table

from regard.insight.heads.statistics import LABELS
from regard.insight.heads.study import Study

SHORT = {"previous": "prev", "punctuation": "punct"}


def table(study: Study) -> Table:
    """Return a table: shares in percent, and the rise of the loss without the head in percent."""
    lines = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("head", "attends to"):
        lines.add_column(name, no_wrap=True)
    names = ["bits", "distance", *(SHORT.get(name, name) for name in LABELS)]
    for name in [*names, *(["rise", "grad"] if study.importance else [])]:
        lines.add_column(name, justify="right", no_wrap=True)
    for statistics in study.heads:
        cells = [
            str(statistics.head),
            statistics.label.removesuffix(" token"),
            f"{statistics.entropy:.2f}",
        ]
        cells.append("" if statistics.distance is None else f"{statistics.distance:.1f}")
        shares = (statistics.shares.get(target) for target in LABELS)
        cells += ["" if share is None else f"{100 * share:.0f}" for share in shares]
        if study.importance is not None:
            whole = study.importance.loss
            cells.append(f"{100 * study.importance.measured[statistics.head] / whole:+.2f}")
            cells.append(f"{100 * study.importance.estimated[statistics.head] / whole:.2f}")
        lines.add_row(*cells)
    return lines
