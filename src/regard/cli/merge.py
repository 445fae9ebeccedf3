"""regard merge: an adapter and its base become one ordinary run folder."""

from pathlib import Path
from typing import Annotated

import typer


def merge(
    run: Annotated[Path, typer.Argument(help="The run folder of an adapter.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the merged run.")],
) -> None:
    """Merge an adapter into the weights of its base: an ordinary model, as fast as any."""
    from regard.training.init.merge_adapter import merge as merge_run

    merge_run(run, output)
    typer.echo(f"The model is in {output}.")
