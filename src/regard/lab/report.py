"""The report: a page for each claim and one for all, in Markdown, with plots and the evidence.

DIR/README.md          the claims, and what became of each
DIR/scaling.md         the claim, the experiment, the rule, what was found
DIR/scaling-1.svg …    its plots
DIR/scaling.json       its evidence, by which the verdict can be computed again
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from regard.atomic import write_all_atomic, write_atomic
from regard.config import plain
from regard.errors import DataError
from regard.lab.claim import Claim
from regard.lab.figures import Plot, Table, draw
from regard.lab.finding import Finding
from regard.lab.run import all_claims


def write(finding: Finding, folder: Path) -> None:
    """The page of one claim, and the page of all with it."""
    folder.mkdir(parents=True, exist_ok=True)
    name, plots = finding.claim.kind(), [x for x in finding.show() if isinstance(x, Plot)]
    files = {f"{name}-{number}.svg": draw(plot) for number, plot in enumerate(plots, start=1)}
    files[f"{name}.md"] = page(finding)
    files[f"{name}.json"] = json.dumps(finding.to_plain(), ensure_ascii=False, indent=1) + "\n"
    write_all_atomic(folder, {path: text.encode() for path, text in files.items()})
    write_atomic(folder / "README.md", overview(kept(folder)).encode())


def kept(folder: Path) -> list[Finding]:
    """What is in a report already, in the order of the lecture."""
    paths = [folder / f"{claim.kind()}.json" for claim in all_claims()]
    return [read(path) for path in paths if path.exists()]


def read(path: Path) -> Finding:
    try:
        return Finding.from_plain(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is not what `regard lab` writes, or damaged ({error}).") from None


def overview(findings: Sequence[Finding]) -> str:
    rows = [
        [
            str(each.claim.number),
            f"[{each.claim.title}]({each.claim.kind()}.md)",
            f"**{each.verdict}**",
            f"`{command(each.claim)}`",
        ]
        for each in findings
    ]
    return f"""# The lecture, tested

Each claim was tested by an experiment on one machine. Its verdict is computed from the evidence by
a rule that stands before it: every criterion is a figure and a line; it holds where the figure's
95 % interval is on the right side, fails where it is on the wrong side, and is unclear where the
line goes through it. A claim is supported where all hold, not supported here where one fails.

{_table(["", "claim", "verdict", "run it"], rows)}

Written by `regard lab all --report DIR`.
"""


def command(claim: Claim) -> str:
    """What tests it so: all settings that are not as they are unless said."""
    usual, settings = plain(type(claim)()), plain(claim)
    changed = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in settings.items()
        if value != usual[key]
    ]
    return shlex.join(["regard", "lab", claim.kind(), *changed])


def page(finding: Finding) -> str:
    """All there is to say of a claim."""
    claim, figures, outcomes = finding.claim, finding.figures, finding.outcomes
    rows = [
        [each.says, each.line, str(figures[name]), outcomes[name]]
        for name, each in claim.criteria.items()
    ]
    how = ", ".join(f"{key} {value}" for key, value in finding.machine.items())
    return f"""# {claim.title}

> {claim.statement}

**Verdict: {finding.verdict}.**

{claim.experiment}

{_table(["must be so", "line", "found", ""], rows)}

{_exhibits(finding)}
`{command(claim)}` took {finding.seconds:,.0f} s ({how}); the evidence is in
[{claim.kind()}.json]({claim.kind()}.json).
"""


def _exhibits(finding: Finding) -> str:
    parts, plots = [], 0
    for exhibit in finding.show():
        if isinstance(exhibit, Table):
            parts.append(f"{exhibit.title}\n\n{_table(exhibit.head, exhibit.rows)}\n")
        else:
            plots += 1
            parts.append(f"![{exhibit.title}]({finding.claim.kind()}-{plots}.svg)\n")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table = (head, ["---"] * len(head), *rows)
    lines = [" | ".join(cell.replace("|", r"\|") for cell in cells) for cells in table]
    return "\n".join(f"| {line} |" for line in lines)
