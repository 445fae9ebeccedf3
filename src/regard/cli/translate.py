"""regard translate: lines in, lines out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.decoding.translator import Translator


def translate(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    file: Annotated[
        Path, typer.Argument(help="Text, one sentence a line; - is standard input.")
    ] = Path("-"),
    to: Annotated[
        str | None, typer.Option(help="The language to produce; the other one unless given.")
    ] = None,
    beam: Annotated[
        int, typer.Option(min=1, help="How many beginnings to follow at a time; 5 is usual.")
    ] = 1,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
    ] = None,
) -> None:
    """Translate: as many lines out as in, in the same order."""
    from regard.cli.console import reporter
    from regard.data.lines import read_lines
    from regard.errors import DataError
    from regard.files import write_whole
    from regard.loading import load_translator

    translator = load_translator(run)
    if str(file) == "-" and output is None and sys.stdin.isatty():
        return _converse(translator, to, beam)
    lines = read_lines(file)
    if not any(map(str.strip, lines)):
        where = "standard input" if str(file) == "-" else file
        raise DataError(f"{where}: there is no text to translate.")
    with reporter().bar("Translating", sum(bool(line.strip()) for line in lines), "lines") as show:
        translated = translator.translate(lines, to, show, beam=beam)
    _tell_unseen(translator, lines)
    text = "".join(f"{line}\n" for line in translated)
    if output is None:
        return typer.echo(text, nl=False)
    return write_whole(output, text.encode())


def _converse(translator: "Translator", to: str | None, beam: int) -> None:
    """A person types: each line is answered at once, and a line that cannot be is not the end."""
    from regard.errors import DataError

    typer.echo("Type a sentence and press Enter; Ctrl-D ends.", err=True)
    for line in sys.stdin:
        try:
            typer.echo(translator.translate([line.rstrip("\n")], to, beam=beam)[0])
            _tell_unseen(translator, [line])
        except DataError as error:
            typer.echo(f"regard: {error}", err=True)


def _tell_unseen(translator: "Translator", lines: list[str]) -> None:
    """Characters that are new to the model reach it as bytes; what it says of them is a guess."""
    found = [(number, translator.tokenizer.unseen(line)) for number, line in enumerate(lines, 1)]
    where = [(number, characters) for number, characters in found if characters]
    for number, characters in where[:3]:
        named = ", ".join(f"'{each}' (U+{ord(each):04X})" for each in characters[:5])
        typer.echo(f"line {number}: never seen in training: {named}.", err=True)
    if len(where) > 3:
        typer.echo(f"… and so in {len(where) - 3:,} more lines.", err=True)
