"""regard resume: go on with a run that was cut off, or train a finished one longer."""

from pathlib import Path
from typing import Annotated

import typer


def resume(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key.path=value: changes to its recipe.")
    ] = None,
) -> None:
    """Go on from the last whole checkpoint, exactly as if nothing had happened."""
    from regard.api import resume as go_on
    from regard.cli._shared.console import reporter, show_scores

    report = reporter()
    go_on(run, overrides or (), report)
    show_scores(run, report)
