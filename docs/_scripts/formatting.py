"""Markdown for the generated pages: escaped text, tables and names of types."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

NAMES: dict[Any, str] = {
    bool: "boolean",
    float: "number",
    int: "integer",
    str: "text",
    Path: "path",
    Any: "any value",
}
_SPECIAL = {"&": "&amp;", "<": "&lt;", "|": "&#124;", "*": "&#42;", "_": "&#95;", "~": "&#126;"}


def escape(text: str) -> str:
    """Return `text` on one line, with the characters escaped that Markdown would interpret.

    Code between backticks stays as it is, except for the bar that would end a table's cell.
    """
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(
        part.replace("|", "\\|") if part.startswith("`") else _escape_plain(part) for part in parts
    )


def code(text: str) -> str:
    """Return `text` as code that may stand in a table."""
    return f"`{text}`".replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def type_name(annotation: Any, link: Callable[[type], str | None] = lambda _: None) -> str:
    """Return the name of a type in a reader's words: "list of integer" for `tuple[int, ...]`.

    Args:
        annotation: The annotation of a parameter or a field.
        link: Returns Markdown for the classes that have a section of their own, None for others.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0], link)
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not NoneType]
        return " or ".join(type_name(member, link) for member in members)
    if origin is Literal:
        return ", ".join(code(str(value)) for value in arguments)
    if origin is tuple and Ellipsis not in arguments:
        return f"list of {len(arguments)}: {', '.join(type_name(each, link) for each in arguments)}"
    if origin in (tuple, list, frozenset):
        return f"list of {type_name(arguments[0], link)}"
    if origin is dict:
        return f"mapping of {' to '.join(type_name(argument, link) for argument in arguments)}"
    if isinstance(annotation, type):
        return link(annotation) or NAMES.get(annotation, annotation.__name__)
    return NAMES.get(annotation, str(annotation))


def _escape_plain(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
