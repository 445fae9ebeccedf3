"""regard check: prove that a recipe is sound, on its own model and data, before training it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from regard.training.checks.properties import Proof


def check(
    recipe: Annotated[Path, typer.Argument(help="A YAML recipe.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key.path=value, as many as you like.")
    ] = None,
) -> None:
    """Prove that nothing leaks, nothing depends on the batch and the model can learn."""
    from rich.console import Console

    from regard.cli._shared.console import reporter
    from regard.errors import TrainingError
    from regard.training.checks.properties import prove
    from regard.training.checks.setup import make_case
    from regard.training.recipe import read_recipe

    report = reporter()
    proofs = list(prove(make_case(read_recipe(recipe, overrides or ()), report), report))
    Console().print(_table(proofs))
    failed = [proof for proof in proofs if proof.failed]
    for proof in failed:
        typer.echo(f"✗ {proof.name}: {proof.hint}")
    if failed:
        raise TrainingError(
            f"{recipe}: {len(failed)} of {len(proofs)} proofs failed: mend what is named above "
            f"before training it."
        )


def _table(proofs: Sequence["Proof"]) -> "Table":
    from rich.table import Table

    table = Table("", "proven", box=None, header_style="bold", pad_edge=False)
    for column in ("found", "at most"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("what was measured")
    for proof in proofs:
        if proof.found is None:
            table.add_row("–", proof.name, "", "", f"does not apply: {proof.unless}")
        else:
            mark = "[bold red]✗[/bold red]" if proof.failed else "[green]✓[/green]"
            numbers = f"{proof.found:.3g}", f"{proof.limit:g}"
            table.add_row(mark, proof.name, *numbers, proof.measured)
    return table
