"""Checks that hold for the arguments of every command, before the command runs.

Typer converts values; it accepts numbers that are not finite, integers that no counter holds, and
texts whose bytes are not UTF-8. Paths may have any bytes, as file systems allow.
"""

import functools
import math
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from typer.models import OptionInfo

from regard.cli._shared.failures import report_failure
from regard.errors import ConfigError

MAX_INTEGER = 2**31 - 1
MAX_SEED = 2**63 - 1


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with its arguments checked.

    Typer has exit codes of its own for Ctrl-C and for a pipe whose reader has ended: those of
    Regard are decided here, before it sees the error.
    """
    names = {name: _display_name(parameter) for name, parameter in _parameters(command).items()}

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        for name, value in arguments.items():
            for item in value if isinstance(value, list) else [value]:
                _check(names[name], item)
        try:
            command(**arguments)
        except (KeyboardInterrupt, OSError) as error:
            raise SystemExit(report_failure(error)) from None

    return run


def _parameters(command: Callable[..., None]) -> dict[str, Parameter]:
    return dict(signature(command).parameters)


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
        _check_text(name, value)


def _check_text(name: str, text: str) -> None:
    for position, character in enumerate(text, start=1):
        if "\ud800" <= character <= "\udfff":
            raise ConfigError(
                f"{name}: character {position} is not valid UTF-8; convert the text to UTF-8 first."
            )
