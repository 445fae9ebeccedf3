"""Command line: one file a command. Only the module of the command that runs is imported."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from regard import __version__
from regard.cli._shared.arguments import Command, checked
from regard.cli._shared.failures import flush_output, report_failure
from regard.cli._shared.renamed import refuse_renamed
from regard.cli._shared.streams import echo, prepare_streams

COMMANDS = (
    *("demo", "init", "check", "train", "resume", "translate", "summarize", "generate", "fill"),
    *("score", "evaluate", "embed", "classify", "look", "heads", "lab", "data", "export", "merge"),
    *("quantize", "doctor", "import", "keys", "serve"),
)


@cache
def application(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """Return the application with the commands of these names."""
    app = typer.Typer(
        help="Transformers that people can train, inspect and serve.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in names:
        function = f"{name}_" if name == "import" else name  # a keyword of Python
        command = getattr(import_module(f"regard.cli.{function}"), function)
        app.command(name, cls=Command)(checked(command))
    return app


def __getattr__(name: str) -> Any:
    if name == "app":
        return application()
    raise AttributeError(f"module 'regard.cli' has no attribute '{name}'")


def _show_version(requested: bool) -> None:
    if requested:
        echo(f"regard {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run a command and exit; `cli/_shared/failures.py` lists the exit codes."""
    _start_quickly()
    prepare_streams()
    try:
        refuse_renamed(sys.argv[1:])
        application(_needed(sys.argv[1:]))()
        code: str | int | None = 0
    except SystemExit as done:
        code = done.code
    except BaseException as error:
        code = report_failure(error)
    _exit(code if isinstance(code, str) else flush_output(code or 0))


def _start_quickly() -> None:
    """Leave out work that is a fifth of the time to start, translate a sentence and exit.

    Modules and models are some 100,000 objects that stay. By default they are searched for garbage
    after every 700 new ones and, longest, when the interpreter exits; pydantic looks for plugins
    among all installed packages.
    """
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)  # what is frozen is not searched
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")


def _needed(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the commands to import: the one that is called, or all for the help."""
    return (arguments[0],) if arguments and arguments[0] in COMMANDS else COMMANDS


def _exit(code: str | int | None) -> None:
    """Exit; a process of torchrun skips the interpreter's shutdown.

    Threads of torch that still run during the shutdown can abort a process that has succeeded.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ and not isinstance(code, str):
        os._exit(code or 0)
    sys.exit(code)
