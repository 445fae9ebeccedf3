"""regard fill: fill the blanks of a text with a masked or span-corruption model."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli._shared.files import STANDARD_INPUT
from regard.cli._shared.options import Int4, Int8, bits_of
from regard.cli._shared.streams import echo


def fill(
    run: Annotated[
        Path, typer.Argument(help="Run folder of a masked-lm or span-corruption model.")
    ],
    text: Annotated[
        str | None,
        typer.Argument(help="Text with blanks: [MASK], <mask> or ___ (default: standard input)."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of candidates for each blank.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a text.")] = False,
    int8: Int8 = False,
    int4: Int4 = False,
) -> None:
    """Print the most likely fillings of each blank, with probabilities."""
    import json

    from regard.data.sources.lines import stream_text
    from regard.loading import load_filler

    filler = load_filler(run, bits=bits_of(int8, int4))
    lines = stream_text(STANDARD_INPUT) if text is None else iter([text])
    for number, line in enumerate(lines, start=1):
        blanks = filler.fill(line, top, number)
        if as_json:
            plain = [
                [{"text": own.text, "probability": own.probability} for own in blank]
                for blank in blanks
            ]
            echo(json.dumps({"text": line, "blanks": plain}, ensure_ascii=False))
            continue
        if text is None:
            echo(line)
        for index, blank in enumerate(blanks, start=1):
            column = f"{index}\t" if len(blanks) > 1 else ""
            for candidate in blank:
                echo(f"{column}{candidate.probability:7.2%}\t{candidate.text}")
