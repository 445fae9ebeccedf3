"""Match parameter names: between two models, and with the patterns of a recipe.

A stack of blocks is a model or a part of one, so `blocks.0` of an encoder matches
`encoder.blocks.0` of a classifier: names are compared with and without the name of the stack.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TypeVar

from torch import nn

from regard.errors import ConfigError

STACKS = ("encoder.", "decoder.")

T = TypeVar("T")


def all_names(model: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters by all their names; a shared parameter has several."""
    return dict(model.named_parameters(remove_duplicate=False))


def matching_name(name: str, others: Collection[str]) -> str | None:
    """Return the name in `others` that is equal, up to the name of the stack; None if none is."""
    bare = _bare(name)
    candidates = (name, bare, *(stack + bare for stack in STACKS))
    return next((candidate for candidate in candidates if candidate in others), None)


def match_parameters(pattern: str, names: Mapping[str, T], key: str) -> list[T]:
    """Return the values whose name contains the pattern between dots: blocks.0, w_q, blocks.*.bias.

    Args:
        pattern: a shell pattern.
        names: values by parameter name.
        key: the recipe key of the pattern, for the error message.

    Raises:
        ConfigError: no name matches.
    """
    matches = [value for name, value in names.items() if fnmatchcase(f".{name}.", f"*.{pattern}.*")]
    if not matches:
        known = list(dict.fromkeys(part for name in names for part in _parts(name)))
        near = get_close_matches(pattern, known, n=1, cutoff=0.0)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"{key}: nothing in this model is called '{pattern}'{hint}")
    return matches


def _bare(name: str) -> str:
    return next((name.removeprefix(s) for s in STACKS if name.startswith(s)), name)


def _parts(name: str) -> Iterator[str]:
    """Patterns that match a name: each of its parts, and its beginnings."""
    words = _bare(name).split(".")
    yield from (word for word in words if not word.isdigit())
    yield from (".".join(words[:length]) for length in range(2, len(words) + 1))
