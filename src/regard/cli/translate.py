"""regard translate: lines in, lines out."""

from pathlib import Path
from typing import Annotated

import typer


def translate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    file: Annotated[
        Path, typer.Argument(help="Text, one sentence a line; - is standard input.")
    ] = (Path("-")),
    to: Annotated[
        str | None, typer.Option(help="The language to produce; the other one unless given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
    ] = None,
) -> None:
    """Translate: as many lines out as in, in the same order."""
    from regard.cli.console import reporter
    from regard.data.lines import read_lines
    from regard.errors import DataError
    from regard.files import write_whole
    from regard.loading import load

    translator = load(run)
    lines = read_lines(file)
    if not any(map(str.strip, lines)):
        raise DataError(
            f"{'standard input' if str(file) == '-' else file}: there is no text to translate."
        )
    with reporter().bar("Translating", sum(bool(line.strip()) for line in lines), "lines") as show:
        translated = translator.translate(lines, to, show)
    text = "".join(f"{line}\n" for line in translated)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text.encode())
