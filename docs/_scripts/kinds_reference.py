"""The kinds: every package in which a new file is a new kind, and the kinds outside recipes."""

import importlib
import pkgutil
from collections.abc import Iterator

import regard
from formatting import code, escape, table
from regard.cli.export import TO
from regard.config import Kind
from regard.insight.watch import POINTS
from regard.interchange.families.base import families
from schema import Schema, kind_specs

INTRODUCTION = """# Kinds

A kind is one file with a class `Spec`: its name is the file's name, and a new file is a new kind.
The [recipe schema](recipe.md) has the keys of the kinds that recipes choose; the keys of the others
are below. Generated from the program.
"""


def page() -> str:
    """Return the page as Markdown."""
    in_recipes = Schema(regard.Recipe).paths
    bases = sorted(all_bases(), key=lambda base: base.package)
    rows = ((code(base.package), ", ".join(map(code, kind_specs(base)))) for base in bases)
    blocks = [INTRODUCTION, table(("package", "kinds"), rows)]
    for base in bases:
        if base not in in_recipes:
            blocks += Schema(base, base.package.removeprefix("regard.")).sections()
    blocks += other_names()
    return "\n\n".join(blocks) + "\n"


def other_names() -> Iterator[str]:
    """Yield the names that are no kinds: points, model types that are imported, libraries."""
    yield "## Points of `regard.watch` {#points-of-regardwatch}"
    yield table(("point", ""), ((code(name), escape(text)) for name, text in POINTS.items()))
    yield "## Model types of `regard import`"
    rows = ((code(name), f"`{family.task}`") for family in families() for name in family.types)
    yield table(("`model_type` in config.json", "task, without a head"), rows)
    yield "## Libraries of `regard export`"
    yield ", ".join(map(code, TO)) + "."


def all_bases() -> list[type[Kind]]:
    """Return the base of every package of kinds, after importing all modules of regard."""
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
    return Kind.__subclasses__()
