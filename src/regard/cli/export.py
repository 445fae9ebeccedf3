"""regard export: convert the model of a run folder for another library."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.files import check_output_folder
from regard.cli._shared.streams import echo

TO = ("ctranslate2", "huggingface", "onnx")


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    to: Annotated[str, typer.Option(help=f"Target library: {', '.join(TO)}.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output folder (default: RUN/LIBRARY)."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing output folder.")
    ] = False,
) -> None:
    """Export a model to another library, with the same outputs."""
    from importlib import import_module

    from regard.errors import ConfigError
    from regard.merged_run import read_merged
    from regard.output_folder import output_folder
    from regard.pretrained import output_folder as named_output

    if to not in TO:
        raise ConfigError(f"--to {to}: give one of {', '.join(TO)}.")
    folder = output or named_output(run) / to
    check_output_folder(folder)
    exporter = import_module(f"regard.interchange.exports.{to}")
    with output_folder(folder, overwrite) as new:
        exporter.export(read_merged(run), new)
    echo(f"The model is in {folder}.")
