"""Regard: Transformers that people can train, see through and serve.

    import regard

    translator = regard.load("runs/demo")
    translator.translate(["The animal didn't cross the street."], to="fr")

Names are imported when first used, so that `import regard` and `regard --help` stay instant.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.native.amx import avoid_broken_amx

# Torch's threads spin for milliseconds while they wait for each other. Where another program has
# one of the cores, they then wait for a thread that cannot run: training beside one such program
# took 20 times as long. Read when torch is first imported; costs nothing where cores are free.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

avoid_broken_amx()  # before torch multiplies its first matrices

if TYPE_CHECKING:
    from regard.api import train
    from regard.errors import RegardError
    from regard.insight.watch import watch
    from regard.loading import load
    from regard.models.base import ModelSpec
    from regard.training.recipe import Recipe, read_recipe

_HOMES = {
    "ModelSpec": "regard.models.base",
    "Recipe": "regard.training.recipe",
    "RegardError": "regard.errors",
    "load": "regard.loading",
    "read_recipe": "regard.training.recipe",
    "train": "regard.api",
    "watch": "regard.insight.watch",
}

__version__ = "0.1.0"
__all__ = ["ModelSpec", "Recipe", "RegardError", "load", "read_recipe", "train", "watch"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
