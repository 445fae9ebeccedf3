"""regard resume: resume an interrupted run, or train a finished one longer."""

from pathlib import Path
from typing import Annotated

import typer


def resume(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Overrides of its recipe: key.path=value …")
    ] = None,
) -> None:
    """Resume training from the last complete checkpoint, with exactly the same result."""
    from regard.api import resume as resume_run
    from regard.cli._shared.console import reporter, show_scores

    report = reporter()
    resume_run(run, overrides or (), report)
    show_scores(run, report)
