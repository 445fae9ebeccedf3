"""Command line: one file a command. Nothing heavy is imported until a command runs."""

import os
import sys
from typing import Annotated

import typer

from regard import __version__
from regard.cli._shared.arguments import Command, checked
from regard.cli._shared.failures import flush_output, report_failure
from regard.cli._shared.renamed import refuse_renamed
from regard.cli._shared.streams import echo, prepare_streams
from regard.cli.check import check
from regard.cli.classify import classify
from regard.cli.data import data
from regard.cli.demo import demo
from regard.cli.doctor import doctor
from regard.cli.embed import embed
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.fill import fill
from regard.cli.generate import generate
from regard.cli.heads import heads
from regard.cli.import_ import import_
from regard.cli.lab import lab
from regard.cli.look import look
from regard.cli.merge import merge
from regard.cli.resume import resume
from regard.cli.score import score
from regard.cli.summarize import summarize
from regard.cli.train import train
from regard.cli.translate import translate

app = typer.Typer(
    help="Transformers that people can train, inspect and serve.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    demo,
    check,
    train,
    resume,
    translate,
    summarize,
    generate,
    fill,
    score,
    evaluate,
    embed,
    classify,
    look,
    heads,
    lab,
    data,
    export,
    merge,
    doctor,
):
    app.command(cls=Command)(checked(command))
app.command("import", cls=Command)(checked(import_))


def _show_version(requested: bool) -> None:
    if requested:
        echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command and exit; `cli/_shared/failures.py` lists the exit codes."""
    prepare_streams()
    try:
        refuse_renamed(sys.argv[1:])
        app()
        code: str | int | None = 0
    except SystemExit as done:
        code = done.code
    except BaseException as error:
        code = report_failure(error)
    _exit(code if isinstance(code, str) else flush_output(code or 0))


def _exit(code: str | int | None) -> None:
    """Exit; a process of torchrun skips the interpreter's shutdown.

    Threads of torch that still run during the shutdown can abort a process that has succeeded.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and not isinstance(code, str):
        os._exit(code or 0)
    sys.exit(code)
