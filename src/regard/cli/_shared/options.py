"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

Beam = Annotated[int, typer.Option(min=1, help="Beam width; 1 is greedy decoding.")]
NoRepeatNgram = Annotated[
    int, typer.Option(min=0, help="Generate no n-gram of this many tokens twice; 0: off.")
]
Int8 = Annotated[
    bool, typer.Option("--int8", help="Use 8-bit weights: smaller, faster, less exact.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Output file (default: standard output).")
]
