"""The command-line reference: every command with its arguments and options, read from typer."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.main import get_command_name

from formatting import code, escape, table, type_name
from regard.cli import app

INTRODUCTION = """# Command line

Every command of `regard`, generated from the program. `regard COMMAND --help` shows the same text,
`regard --version` the version.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | an error that you can fix: one sentence on standard error |
| 2 | wrong usage |
| 70 | a bug in Regard, with its traceback |
| 130 | interrupted by Ctrl-C |
| 141 | the program that reads the output has ended, as `head` does |

Input and output are UTF-8, whatever the locale is. File names may have any bytes.
"""


def page() -> str:
    """Return the page as Markdown."""
    group: Any = typer.main.get_command(app)
    commands = {name: command for name, command in group.commands.items() if not command.hidden}
    rows = ((f"[`regard {name}`](#{name})", _summary(each)) for name, each in commands.items())
    functions = _functions()
    sections = (_section(name, each, functions[name]) for name, each in commands.items())
    return "\n\n".join((INTRODUCTION, table(("command", ""), rows), *sections)) + "\n"


def _functions() -> dict[str, Callable[..., Any]]:
    """Return the function behind every command by the command's name."""
    callbacks = [(info.name, info.callback) for info in app.registered_commands if info.callback]
    return {name or get_command_name(each.__name__): each for name, each in callbacks}


def _summary(command: Any) -> str:
    return escape((command.help or "").split("\n\n")[0])


def _section(name: str, command: Any, function: Callable[..., Any]) -> str:
    paragraphs = [escape(paragraph) for paragraph in (command.help or "").split("\n\n")]
    return "\n\n".join(
        (
            f"## regard {name} {{#{name}}}",
            *paragraphs,
            f"```\n{_usage(name, command)}\n```",
            *_parameters(command, function, "argument"),
            *_parameters(command, function, "option"),
        )
    )


def _usage(name: str, command: Any) -> str:
    words = ["regard", name, "[OPTIONS]"]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            word = _metavar(parameter)
            words.append(word if parameter.required else f"[{word}]")
    return " ".join(words)


def _metavar(argument: Any) -> str:
    word = (argument.metavar or argument.name).upper()
    return f"{word}..." if argument.nargs != 1 else word


def _parameters(command: Any, function: Callable[..., Any], kind: str) -> list[str]:
    """Return the table of a command's arguments or of its options, if it has any."""
    signature = inspect.signature(function, eval_str=True)
    parameters = [
        parameter
        for parameter in command.params
        if parameter.param_type_name == kind and not parameter.hidden and parameter.name != "help"
    ]
    rows = [
        (
            _spelling(parameter),
            _type(parameter, signature.parameters[parameter.name].annotation),
            _default(parameter),
            escape(parameter.help or ""),
        )
        for parameter in parameters
    ]
    return [table((kind, "type", "default", ""), rows)] if rows else []


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return code(_metavar(parameter))
    return ", ".join(code(name) for name in (*parameter.opts, *parameter.secondary_opts))


def _type(parameter: Any, annotation: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    limits = [f"≥ {least}"] if least is not None else []
    limits += [f"≤ {most}"] if most is not None else []
    repeated = ", repeatable" if parameter.multiple else ""
    name = type_name(annotation).removeprefix("list of ")
    return f"{' '.join((name, *limits))}{repeated}"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default is None or parameter.default == []:
        return ""
    if getattr(parameter, "is_flag", False):
        return "on" if parameter.default else "off"
    return code(str(parameter.default)) if str(parameter.default) else ""
