"""Checks that hold for the arguments of every command, before the command runs.

Typer converts values; it accepts numbers that are not finite, integers that no counter holds,
texts whose bytes are not UTF-8, and an empty path for the current folder. Other paths may have any
bytes, as file systems allow.
"""

import functools
import math
from collections.abc import Callable
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_args

from typer.core import TyperCommand
from typer.models import ArgumentInfo, OptionInfo

from regard.cli._shared.failures import report_failure
from regard.cli._shared.files import TEXT_OR_FILE, check_exists, check_run, check_text
from regard.errors import ConfigError

MAX_INTEGER = 2**31 - 1
MAX_SEED = 2**63 - 1


class Command(TyperCommand):
    """A command that refuses an empty path, as of an unset shell variable: `-o "$OUT"`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; once converted, an empty path is the current folder."""
        raw_values, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        for name, parameter in _parameters(self.callback).items():
            value = raw_values.get(name)
            values = value if isinstance(value, list | tuple) else [value]
            if _takes_path(parameter.annotation) and "" in values:
                raise ConfigError(f"{_display_name(parameter)}: the path is empty; give one.")
        return super().parse_args(ctx, args)


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its arguments checked.

    Typer has exit codes of its own for Ctrl-C and for a pipe whose reader has ended: those of
    Regard are decided here, before it sees the error.
    """
    parameters = _parameters(command)
    names = {name: _display_name(parameter) for name, parameter in parameters.items()}
    inputs = [name for name in parameters if _is_input(name, parameters[name])]
    mixed = {name for name in parameters if _is_text_or_file(parameters[name])}

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        for name, value in arguments.items():
            for item in value if isinstance(value, list) and name not in mixed else [value]:
                _check(names[name], item)
        for name in inputs:  # before the command imports torch, which takes seconds
            _check_input(name, arguments[name])
        try:
            command(**arguments)
        except (KeyboardInterrupt, OSError) as error:
            raise SystemExit(report_failure(error)) from None

    return run


def _parameters(command: Callable[..., Any] | None) -> dict[str, Parameter]:
    return dict(signature(command).parameters) if command is not None else {}


def _takes_path(annotation: Any) -> bool:
    return annotation is Path or any(_takes_path(part) for part in get_args(annotation))


def _is_input(name: str, parameter: Parameter) -> bool:
    """Return whether a parameter is a path to read: an argument, not an option.

    A recipe is read first of all, with its own errors; a file of keys may be a new one.
    """
    annotation = parameter.annotation
    infos = getattr(annotation, "__metadata__", ())
    positional = any(isinstance(info, ArgumentInfo) for info in infos)
    return positional and _takes_path(annotation) and name not in ("recipe", "key_file")


def _is_text_or_file(parameter: Parameter) -> bool:
    """Return whether values are texts or a file, whose name may have any bytes: `texts_or_file`."""
    infos = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(info, ArgumentInfo) and info.metavar == TEXT_OR_FILE for info in infos)


def _check_input(name: str, value: Path | list[Path] | None) -> None:
    for path in value if isinstance(value, list) else [value]:
        if path is not None:
            (check_run if name == "run" else check_exists)(path)


def _display_name(parameter: Parameter) -> str:
    """Return the name of a parameter as a user writes it: --max-tokens, or FILE."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(info, OptionInfo):
            declared = [name for name in info.param_decls or () if name.startswith("--")]
            return declared[0] if declared else f"--{parameter.name.replace('_', '-')}"
    return parameter.name.upper()


def _check(name: str, value: Any) -> None:
    """Raise ConfigError for a value that no command can use."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} {value}: give a finite number.")
    limit = MAX_SEED if name == "--seed" else MAX_INTEGER
    if type(value) is int and abs(value) > limit:
        raise ConfigError(f"{name}: the number is too large; give at most {limit}.")
    if isinstance(value, str):
        check_text(name, value)
