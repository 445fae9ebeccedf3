"""regard import: convert a model of Hugging Face or llama2.c to a run folder."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.streams import echo


def import_(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Model folder of Hugging Face or sentence-transformers; or llama2.c's MODEL.bin "
            "with tok*.bin in the same folder, or that folder."
        ),
    ],
    run: Annotated[
        Path | None, typer.Option(help="Run folder to write (default: runs/NAME).")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="Languages of a translator: fr-en.")] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Compare outputs with transformers, which must be installed."
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing model.")
    ] = False,
) -> None:
    """Import a model: GPT-2, Llama, (Distil)BERT, RoBERTa, Marian, Pegasus, T5, llama2.c."""
    from regard.data.direction import Direction
    from regard.errors import ConfigError
    from regard.interchange.importing import import_model

    direction = None
    if languages is not None:
        source, dash, target = languages.partition("-")
        if not source or not dash or not target:
            raise ConfigError(f"--languages {languages}: give two languages, as in fr-en.")
        direction = Direction(source, target)
    run = run or Path("runs") / folder.resolve().name.removesuffix(".bin")
    difference = import_model(folder, run, direction, verify, overwrite)
    if difference is not None:
        echo(f"Outputs differ from transformers by at most {difference:.1e} of the largest.")
    echo(f"The model is in {run}.")
