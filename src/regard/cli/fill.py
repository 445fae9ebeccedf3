"""regard fill: the words that may stand in the blanks of a text."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def fill(
    run: Annotated[Path, typer.Argument(help="A run folder of a masked or span model.")],
    text: Annotated[
        str | None,
        typer.Argument(help="With blanks: [MASK], <mask> or ___; standard input if not given."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="So many words for each blank.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
) -> None:
    """Fill the blanks of a text, or of each line: the likeliest words, with probabilities."""
    import json
    from dataclasses import asdict

    from regard.loading import load_filler

    filler = load_filler(run)
    lines = (line.rstrip("\n") for line in sys.stdin) if text is None else iter([text])
    for number, line in enumerate(lines, start=1):
        blanks = filler.fill(line, top, number)
        if as_json:
            plain = [[asdict(each) for each in blank] for blank in blanks]
            typer.echo(json.dumps({"text": line, "blanks": plain}, ensure_ascii=False))
            continue
        if text is None:
            typer.echo(line)
        for place, blank in enumerate(blanks, start=1):
            which = f"{place}\t" if len(blanks) > 1 else ""
            for each in blank:
                typer.echo(f"{which}{each.probability:7.2%}\t{each.text}")
