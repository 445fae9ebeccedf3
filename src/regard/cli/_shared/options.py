"""Options that several commands have, each said once."""

from pathlib import Path
from typing import Annotated

import typer

Beam = Annotated[
    int, typer.Option(min=1, help="How many beginnings to follow at a time; 5 is usual.")
]
NoRepeat = Annotated[int, typer.Option(min=0, help="No n words in a row twice; 0: off.")]
Int8 = Annotated[bool, typer.Option("--int8", help="Whole-number weights: smaller and faster.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="A file instead of standard output.")
]
