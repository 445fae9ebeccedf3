"""regard look: which word looked at which, as a page and in the terminal."""

from pathlib import Path
from typing import Annotated

import typer


def look(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    sentence: Annotated[str, typer.Argument(help="The sentence to translate and look into.")],
    to: Annotated[
        str | None, typer.Option(help="The language to produce; the other one unless given.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The page; attention.html in the run folder if not given."
        ),
    ] = None,
    panel: Annotated[
        str, typer.Option(help="What to show in the terminal: encoder, decoder or cross.")
    ] = "cross",
    layer: Annotated[
        int | None, typer.Option(help="Which layer to show in the terminal, from 1; the last.")
    ] = None,
) -> None:
    """Write a page that shows which word looked at which, and a compact view here."""
    from rich.console import Console

    from regard.errors import DataError
    from regard.insight import page, terminal
    from regard.insight.look import look as look_into
    from regard.loading import load_translator

    picture = look_into(load_translator(run), sentence, to, title=str(run))
    try:
        view = terminal.render(picture, panel, None if layer is None else layer - 1)
    except LookupError as error:
        raise DataError(f"{error.args[0]}.") from None
    target = output or run / "attention.html"
    page.write(picture, target)
    console = Console()
    console.print(view)
    console.print(f"The page is {target}; it opens in any browser.", highlight=False)
