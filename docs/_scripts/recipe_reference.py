"""The recipe schema: every section, kind and key below `regard.Recipe`."""

from regard import Recipe
from schema import Schema

INTRODUCTION = """# Recipe schema

Every section of a recipe with its keys, their types and defaults, generated from the program.
A recipe is a YAML file; `regard train RECIPE section.key=value` overrides a key. An unknown key is
an error that names the closest known one.

Where a section has several kinds, `kind` chooses one: `position: {kind: rotary, base: 500}`, or
just `position: rotary` for a kind with its defaults.
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n\n".join((INTRODUCTION, *Schema(Recipe).sections())) + "\n"
