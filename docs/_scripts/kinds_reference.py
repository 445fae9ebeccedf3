"""The kinds: every package in which a new file is a new kind, and the kinds outside recipes."""

import importlib
import pkgutil

import regard
from formatting import code, table
from regard.config import Kind
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
    return "\n\n".join(blocks) + "\n"


def all_bases() -> list[type[Kind]]:
    """Return the base of every package of kinds, after importing all modules of regard."""
    for module in pkgutil.walk_packages(regard.__path__, "regard."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)
    return Kind.__subclasses__()
