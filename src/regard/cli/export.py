"""regard export: a run folder's model for another library."""

from pathlib import Path
from typing import Annotated

import typer

TO = ("ctranslate2", "huggingface", "onnx")


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    to: Annotated[str, typer.Option(help=f"The library: {', '.join(TO)}.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder; RUN/LIBRARY unless given."),
    ] = None,
) -> None:
    """Export the model: the same words in another library."""
    from importlib import import_module

    from regard.errors import ConfigError
    from regard.merged_run import read_merged

    if to not in TO:
        raise ConfigError(f"--to {to}: give one of {', '.join(TO)}.")
    folder = output or run / to
    import_module(f"regard.interchange.exports.{to}").export(read_merged(run), folder)
    typer.echo(f"The model is in {folder}.")
