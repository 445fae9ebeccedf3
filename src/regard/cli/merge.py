"""regard merge: merge an adapter into its base model."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.streams import echo


def merge(
    run: Annotated[Path, typer.Argument(help="Run folder of an adapter.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Run folder to write.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing model.")
    ] = False,
) -> None:
    """Merge an adapter into the weights of its base model and write an ordinary run folder."""
    from regard.training.init.merge_adapter import merge as merge_run

    merge_run(run, output, overwrite)
    echo(f"The model is in {output}.")
