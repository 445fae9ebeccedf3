"""The report in Markdown: a page for each claim, an overview, plots and the evidence.

DIR/README.md          the claims and their verdicts
DIR/scaling.md         the claim, the experiment, the criteria and the results
DIR/scaling-1.svg …    its plots
DIR/scaling.json       its evidence, from which the verdict can be computed again
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from regard.atomic import write_all_atomic, write_atomic
from regard.config import plain
from regard.errors import DataError
from regard.json_files import read_json
from regard.lab.claim import Criterion, Outcome
from regard.lab.figures import Plot, Table, draw
from regard.lab.finding import Finding
from regard.lab.run import all_claims


def write(finding: Finding, folder: Path) -> None:
    """Write the page of one claim, and the overview again."""
    folder.mkdir(parents=True, exist_ok=True)
    name, plots = finding.claim.kind(), [f for f in finding.show() if isinstance(f, Plot)]
    files = {f"{name}-{number}.svg": draw(plot) for number, plot in enumerate(plots, start=1)}
    files[f"{name}.md"] = page(finding)
    files[f"{name}.json"] = json.dumps(finding.to_plain(), ensure_ascii=False, indent=1) + "\n"
    write_all_atomic(folder, {path: text.encode() for path, text in files.items()})
    write_atomic(folder / "README.md", overview(read_all(folder)).encode())


def read_all(folder: Path) -> list[Finding]:
    """Read the findings of a report, in the order of the lecture."""
    paths = [folder / f"{claim.kind()}.json" for claim in all_claims()]
    return [read(path) for path in paths if path.exists()]


def read(path: Path) -> Finding:
    """Read one finding; raises DataError where the file is not of the right form."""
    try:
        return Finding.from_plain(read_json(path, error=DataError, finite=False))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a file written by `regard lab`, or damaged, or of an earlier version "
            f"({error}); remove it and run the experiment again."
        ) from None


def overview(findings: Sequence[Finding]) -> str:
    """Return the page with the verdicts on all claims."""
    rows = [
        [
            str(finding.claim.number),
            f"[{finding.claim.title}]({finding.claim.kind()}.md)",
            f"**{finding.verdict or finding.no_verdict}**",
            f"`{command(finding)}`",
        ]
        for finding in findings
    ]
    return f"""# Claims of the lecture, tested

Each claim of the lecture was tested by an experiment on one machine. The criteria were fixed
before the experiment. A criterion is a quantity and a threshold: it holds if the whole 95 %
interval of the quantity satisfies the threshold, fails if no part of it does, and is unclear if
the threshold lies inside the interval. A claim is supported if all criteria hold, and not supported
here if one fails; there is no verdict from fewer than three seeds. A quantity that cannot violate
its threshold, by the way it is computed, is shown and not judged.

{_table(["", "claim", "verdict", "command"], rows)}

Written by `regard lab all --report DIR`.
"""


def command(finding: Finding) -> str:
    """Return the command of an experiment, with all settings that differ from their defaults."""
    claim = finding.claim
    base = {**plain(type(claim)()), **(plain(claim.quick) if finding.quick else {})}
    settings = plain(claim)
    changed = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in settings.items()
        if value != base[key]
    ]
    quick = ["--quick"] if finding.quick else []
    return shlex.join(["regard", "lab", claim.kind(), *changed, *quick])


def page(finding: Finding) -> str:
    """Return the page of one claim."""
    claim, intervals, outcomes = finding.claim, finding.intervals, finding.outcomes
    rows = [
        [
            criterion.description,
            criterion.threshold,
            str(intervals[name]),
            _outcome_text(criterion, outcomes.get(name)),
        ]
        for name, criterion in claim.criteria.items()
    ]
    machine = ", ".join(f"{key} {value}" for key, value in finding.machine.items())
    return f"""# {claim.title}

> {claim.statement}

**{finding.conclusion[:1].upper()}{finding.conclusion[1:]}.**

{claim.experiment}

{_table(["criterion", "threshold", "measured", "outcome"], rows)}

{_figures(finding)}
`{command(finding)}` took {finding.seconds:,.0f} s ({machine}); the evidence is in
[{claim.kind()}.json]({claim.kind()}.json).
"""


def _outcome_text(criterion: Criterion, outcome: Outcome | None) -> str:
    if criterion.by_construction is not None:
        return f"not judged: {criterion.by_construction}"
    return outcome or "–"


def _figures(finding: Finding) -> str:
    parts, plots = [], 0
    for figure in finding.show():
        if isinstance(figure, Table):
            parts.append(f"{figure.title}\n\n{_table(figure.head, figure.rows)}\n")
        else:
            plots += 1
            parts.append(f"![{figure.title}]({finding.claim.kind()}-{plots}.svg)\n")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = (head, ["---"] * len(head), *rows)
    lines = [" | ".join(cell.replace("|", r"\|") for cell in cells) for cells in table]
    return "\n".join(f"| {line} |" for line in lines)
