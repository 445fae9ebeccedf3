"""regard check: test properties of a recipe on its own model and data before training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._shared.streams import echo

if TYPE_CHECKING:
    from rich.table import Table

    from regard.training.checks.properties.base import Check


def check(
    recipe: Annotated[Path, typer.Argument(help="Recipe (YAML).")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Overrides of the recipe: key.path=value …")
    ] = None,
) -> None:
    """Check that no token sees the future, outputs ignore the batch, and the model can learn."""
    from regard.cli._shared.recipes import check_recipe

    check_recipe(recipe, overrides or ())  # before torch is imported
    from regard.cli._shared.console import reporter
    from regard.errors import TrainingError
    from regard.training.checks.run import run_checks
    from regard.training.checks.setup import make_context
    from regard.training.recipe import read_recipe
    from regard.training.reporting.progress import plain_console

    report = reporter()
    context = make_context(read_recipe(recipe, overrides or (), report.say), report)
    checks = list(run_checks(context, report))
    plain_console().print(_table(checks))
    failed = [check for check in checks if check.failed]
    for check in failed:
        echo(f"✗ {check.name}: {check.hint}")
    if failed:
        raise TrainingError(
            f"{recipe}: {len(failed)} of {len(checks)} checks failed: fix what is named above "
            f"before training it."
        )


def _table(checks: Sequence["Check"]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table("", "property", box=None, header_style="bold", pad_edge=False)
    for column in ("value", "limit"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("measured")
    for check in checks:
        if check.value is None:
            table.add_row("–", check.name, "", "", f"does not apply: {check.unless}")
        else:
            mark = Text("✗", style="bold red") if check.failed else Text("✓", style="green")
            numbers = f"{check.value:.3g}", f"{check.limit:g}"
            table.add_row(mark, check.name, *numbers, check.measured)
    return table
