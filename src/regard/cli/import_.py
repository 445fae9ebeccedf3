"""regard import: a model of Hugging Face or llama2.c becomes a run folder."""

from pathlib import Path
from typing import Annotated

import typer


def import_(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A model folder as Hugging Face or sentence-transformers saves it; or llama2.c's "
            "MODEL.bin with tok*.bin beside it, or their folder."
        ),
    ],
    run: Annotated[
        Path | None, typer.Option(help="The run folder; runs/NAME unless given.")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="What a translator translates, as fr-en.")
    ] = None,
) -> None:
    """Import a model: GPT-2, Llama, BERT, RoBERTa, Marian, Pegasus, T5; llama2.c. No pickles."""
    from regard.data.config import Direction
    from regard.errors import ConfigError
    from regard.interchange.importing import import_model

    way = None
    if languages is not None:
        source, dash, target = languages.partition("-")
        if not source or not dash or not target:
            raise ConfigError(f"--languages {languages}: give two, as fr-en.")
        way = Direction(source, target)
    run = run or Path("runs") / folder.resolve().name.removesuffix(".bin")
    import_model(folder, run, way)
    typer.echo(f"The model is in {run}.")
