"""YAML with a comment behind each value, as a person writes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MAX_COLUMN = 40  # of a comment; a longer line has it after two spaces
WIDTH = 10**6  # characters of a value before YAML would break it


@dataclass(frozen=True)
class Commented:
    """A value of a recipe with a comment."""

    value: Any
    comment: str


@dataclass(frozen=True)
class Inline:
    """A mapping that is written in one line."""

    value: Mapping[str, Any]


Section = Mapping[str, "Any | Commented | Section"]


def render(sections: Section, heading: str) -> str:
    """Return the sections of a recipe as YAML, with the heading as comments in front."""
    lines = [f"# {line}" for line in heading.splitlines()]
    for key, section in sections.items():
        lines += _aligned(list(_lines({key: section})))
    return "\n".join(lines) + "\n"


def values(section: Any) -> Any:
    """Return a section without its comments, as a recipe is validated."""
    if isinstance(section, Commented | Inline):
        return values(section.value)
    if isinstance(section, Mapping):
        return {key: values(item) for key, item in section.items()}
    if isinstance(section, list):
        return [values(item) for item in section]
    return str(section) if isinstance(section, Path) else section


def _lines(section: Section, indent: str = "") -> Iterator[tuple[str, str]]:
    """Yield each line with its comment."""
    for key, item in section.items():
        value, comment = (item.value, item.comment) if isinstance(item, Commented) else (item, "")
        if isinstance(value, Mapping):
            yield f"{indent}{_scalar(key)}:", comment
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{_scalar(key)}: {_scalar(values(value))}", comment


def _aligned(lines: list[tuple[str, str]]) -> list[str]:
    commented = [len(text) for text, comment in lines if comment and len(text) < MAX_COLUMN]
    column = max(commented, default=0) + 2
    return [f"{text:<{column - 2}}  # {comment}" if comment else text for text, comment in lines]


def _scalar(value: Any) -> str:
    """Return a value in one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, sort_keys=False, width=WIDTH
    )
    return text.removesuffix("\n").removesuffix("\n...")
