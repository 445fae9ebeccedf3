"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

NoRepeatNgram = Annotated[
    int, typer.Option(min=0, help="Generate no n-gram of this many tokens twice; 0: off.")
]
Int8 = Annotated[
    bool, typer.Option("--int8", help="Use 8-bit weights: smaller, faster, less exact.")
]
Int4 = Annotated[
    bool, typer.Option("--int4", help="Use 4-bit weights: half of --int8, least exact.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Output file (default: standard output).")
]


def bits_of(int8: bool, int4: bool) -> int:
    """Return the bits of the weights for --int8 and --int4, of which one may be given."""
    from regard.errors import ConfigError

    if int8 and int4:
        raise ConfigError("--int8 and --int4 are both given; leave one of them out.")
    return 4 if int4 else 8 if int8 else 32
