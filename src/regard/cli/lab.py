"""regard lab: the claims of the lecture, tested on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from regard.lab import figures
    from regard.lab.claim import Claim
    from regard.lab.finding import Finding


def lab(
    name: Annotated[str | None, typer.Argument(help="A claim, or all; none lists them.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="setting=value, as many as you like.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A look of seconds.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="A folder for pages, plots and evidence.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Test again the claims that the report has.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")] = False,
) -> None:
    """Test claims of the lecture, each by an experiment and a rule that stands before it."""
    from regard.config import override
    from regard.errors import ConfigError
    from regard.lab import all_claims, claim_named

    if name is None:
        return _list(as_json)
    changes = override({}, overrides or [])
    if name == "all" and changes:
        raise ConfigError("settings are a claim's own: change them with `regard lab NAME`.")
    asked = [name] if name != "all" else [each.kind() for each in all_claims()]
    findings = [_found(claim_named(each, changes, quick), report, overwrite) for each in asked]
    _tell(findings, as_json)
    if report is not None and not as_json:
        typer.echo(f"The report is {report / 'README.md'}.")
    return None


def _list(as_json: bool) -> None:
    import json

    from rich.console import Console
    from rich.table import Table

    from regard.lab import all_claims

    if as_json:
        rows = [
            {"number": each.number, "name": each.kind(), "statement": each.statement}
            for each in all_claims()
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    table = Table("", "name", "claim", box=None, header_style="bold", pad_edge=False)
    for each in all_claims():
        table.add_row(str(each.number), each.kind(), each.title)
    Console().print(table)
    typer.echo("`regard lab NAME` tests one; `regard lab all --report DIR` tests all.")


def _found(claim: "Claim", folder: Path | None, overwrite: bool) -> "Finding":
    """Tested now, unless the report has it with the same settings."""
    from regard import run_folder
    from regard.cli._shared.console import reporter
    from regard.lab import report, run

    path = None if folder is None else folder / f"{claim.kind()}.json"
    if path is not None and path.exists() and not overwrite:
        kept = report.read(path)
        if kept.claim == claim:
            return kept
    if folder is not None:
        run_folder.check_writable(folder)
    finding = run(claim, report=reporter())
    if folder is not None:
        report.write(finding, folder)
    return finding


def _tell(findings: "list[Finding]", as_json: bool) -> None:
    import json

    if as_json:
        content = [finding.to_plain() for finding in findings]
        typer.echo(json.dumps(content[0] if len(content) == 1 else content, ensure_ascii=False))
        return
    for finding in findings:
        _print(finding)


def _print(finding: "Finding") -> None:
    from rich.console import Console
    from rich.table import Table

    from regard.lab import figures

    console, claim = Console(), finding.claim
    console.print(f"[bold]{claim.number}. {claim.title}[/bold]\n{claim.statement}\n")
    for exhibit in finding.show():
        if isinstance(exhibit, figures.Table):
            console.print(_rich(exhibit))
    table = Table("must be so", "line", "found", "", box=None, header_style="bold", pad_edge=False)
    intervals, outcomes = finding.figures, finding.outcomes
    for name, each in claim.criteria.items():
        table.add_row(each.says, each.line, str(intervals[name]), outcomes[name])
    console.print(table)
    console.print(f"\nVerdict: [bold]{finding.verdict}[/bold] ({finding.seconds:,.0f} s)\n")


def _rich(exhibit: "figures.Table") -> "Table":
    from rich.table import Table

    table = Table(*exhibit.head, title=exhibit.title, box=None, header_style="bold", pad_edge=False)
    for row in exhibit.rows:
        table.add_row(*row)
    return table
