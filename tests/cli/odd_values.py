"""Odd values for every option and argument of every command, found from the command line itself."""

import inspect
import types
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

from regard import cli

NUMBERS = ("-1", "0", "nan", "inf", "-inf", "1e308", str(10**30), "-" + "9" * 30, "", "a", "/tmp")
TEXTS = ("", " ", "\x01\x1b[31m", "[/] [bold] :cat: {} {text} %s", "a" * 100_000, "☃\u2028e\u0301")
FILES = ("", "/dev/null", "/dev/null/at", "/proc", "a" * 300, "a/" * 3000, "\x01", "[/]", "-", "..")
# Overrides and settings of the lab start work: only those that are refused at once.
OVERRIDES = (
    "",
    "=",
    "a",
    "a=b",
    "a.b.c=1",
    "[/]=1",
    "=" * 1000,
    "training.steps=nan",
    "a" * 10_000,
)


def parameters() -> Iterator[tuple[str, str, bool, type]]:
    """Yield the command, the name, whether it is an option, and the type of each parameter."""
    for info in cli.app.registered_commands:
        command = inspect.unwrap(info.callback)  # type: ignore[arg-type]
        name = info.name or command.__name__
        for parameter, hint in get_type_hints(command, include_extras=True).items():
            if get_origin(hint) is Annotated:
                base, declared = get_args(hint)
                kind = _value_type(base)
                if isinstance(declared, OptionInfo) and kind is not bool:
                    yield name, _option_name(parameter, declared), True, kind
                elif isinstance(declared, ArgumentInfo):
                    yield name, parameter, False, kind


def odd_values(parameter: str, kind: type) -> Sequence[str]:
    """Return odd values for a parameter of this type."""
    if kind in (int, float):
        return NUMBERS
    if parameter == "overrides":
        return OVERRIDES
    if kind is Path:
        return FILES
    return TEXTS if not issubclass(kind, Enum) else TEXTS[:3]


def _value_type(hint: Any) -> type:
    """Return the type of one value: int for `list[int] | None`."""
    if get_origin(hint) in (Union, types.UnionType):
        return _value_type(next(arg for arg in get_args(hint) if arg is not type(None)))
    if get_origin(hint) is list:
        return _value_type(get_args(hint)[0])
    assert isinstance(hint, type)
    return hint


def _option_name(parameter: str, declared: OptionInfo) -> str:
    names = [name for name in declared.param_decls or () if name.startswith("--")]
    return names[0] if names else f"--{parameter.replace('_', '-')}"
