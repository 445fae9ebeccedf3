"""regard lab: experiments that test the claims of the lecture on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from rich.table import Table

    from regard.lab import figures
    from regard.lab.claim import Claim
    from regard.lab.finding import Finding


def lab(
    name: Annotated[
        str | None, typer.Argument(help="A claim, or `all`; by default, list the claims.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changes to its settings, as setting=value.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Small settings that take seconds: figures, but no verdict."),
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write pages, plots and evidence to this folder.")
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Repeat the experiments that the report already has."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")] = False,
) -> None:
    """Test claims of the lecture by experiments, with criteria fixed in advance."""
    from regard.config import override
    from regard.errors import ConfigError
    from regard.lab import all_claims, claim_named

    if name is None:
        return _list(as_json)
    changes = override({}, overrides or [])
    if name == "all" and changes:
        raise ConfigError("settings are a claim's own: change them with `regard lab NAME`.")
    names = [name] if name != "all" else [claim.kind() for claim in all_claims()]
    claims = [claim_named(kind, changes, quick) for kind in names]
    findings = [_finding(claim, quick, report, overwrite) for claim in claims]
    _show(findings, as_json)
    if report is not None and not as_json:
        echo(f"The report is {report / 'README.md'}.")
    return None


def _list(as_json: bool) -> None:
    import json

    from rich.table import Table

    from regard.lab import all_claims
    from regard.training.reporting.progress import plain_console

    if as_json:
        rows = [
            {"number": claim.number, "name": claim.kind(), "statement": claim.statement}
            for claim in all_claims()
        ]
        echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    table = Table("", "name", "claim", box=None, header_style="bold", pad_edge=False)
    for claim in all_claims():
        table.add_row(str(claim.number), claim.kind(), claim.title)
    plain_console().print(table)
    echo("`regard lab NAME` tests one claim; `regard lab all --report DIR` tests all.")


def _finding(claim: "Claim", quick: bool, folder: Path | None, overwrite: bool) -> "Finding":
    """Run an experiment, unless the report has it with the same settings."""
    from regard import run_folder
    from regard.cli._shared.console import reporter
    from regard.lab import report, run

    path = None if folder is None else folder / f"{claim.kind()}.json"
    if path is not None and path.exists() and not overwrite:
        previous = report.read(path)
        if previous.claim == claim and previous.quick == quick:
            return previous
    if folder is not None:
        run_folder.check_writable(folder)
    finding = run(claim, quick=quick, report=reporter())
    if folder is not None:
        report.write(finding, folder)
    return finding


def _show(findings: "list[Finding]", as_json: bool) -> None:
    import json

    if as_json:
        content = [finding.to_plain() for finding in findings]
        echo(json.dumps(content[0] if len(content) == 1 else content, ensure_ascii=False))
        return
    for finding in findings:
        _print(finding)


def _print(finding: "Finding") -> None:
    from rich.table import Table
    from rich.text import Text

    from regard.lab import figures
    from regard.training.reporting.progress import plain_console

    console, claim = plain_console(), finding.claim
    console.print(f"{claim.number}. {claim.title}", style="bold")
    console.print(f"{claim.statement}\n")
    for figure in finding.show():
        if isinstance(figure, figures.Table):
            console.print(_rich(figure))
    table = Table(
        *("criterion", "threshold", "measured", ""),
        box=None,
        header_style="bold",
        pad_edge=False,
    )
    intervals, outcomes = finding.intervals, finding.outcomes
    for name, criterion in claim.criteria.items():
        measured = str(intervals[name])
        table.add_row(criterion.description, criterion.threshold, measured, outcomes.get(name, ""))
    console.print(table)
    seconds = f" ({finding.seconds:,.0f} s)\n"
    console.print(Text.assemble("\n", (finding.conclusion, "bold"), seconds))


def _rich(figure: "figures.Table") -> "Table":
    from rich.table import Table

    table = Table(*figure.head, title=figure.title, box=None, header_style="bold", pad_edge=False)
    for row in figure.rows:
        table.add_row(*row)
    return table
