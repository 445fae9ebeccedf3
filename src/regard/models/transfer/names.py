"""Parameters by name: which are the same in two models, and which a recipe means.

A stack of blocks is a model by itself or a part of one, so `blocks.0` of an encoder is
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
    """The parameters by all their names: a shared one has several."""
    return dict(model.named_parameters(remove_duplicate=False))


def matching_name(name: str, others: Collection[str]) -> str | None:
    """Which of the others has the same name, or the same in another stack or in none."""
    bare = _bare(name)
    candidates = (name, bare, *(stack + bare for stack in STACKS))
    return next((each for each in candidates if each in others), None)


def match_parameters(pattern: str, names: Mapping[str, T], key: str) -> list[T]:
    """All that have the pattern in their name, between dots: blocks.0, w_q, blocks.[01].*.bias.

    One that means nothing is an error, which names the `key` it is from.
    """
    found = [each for name, each in names.items() if fnmatchcase(f".{name}.", f"*.{pattern}.*")]
    if not found:
        known = list(dict.fromkeys(part for name in names for part in _parts(name)))
        near = get_close_matches(pattern, known, n=1, cutoff=0.0)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"{key}: nothing in this model is called '{pattern}'{hint}")
    return found


def _bare(name: str) -> str:
    return next((name.removeprefix(s) for s in STACKS if name.startswith(s)), name)


def _parts(name: str) -> Iterator[str]:
    """All that a name may be called by: each of its words, and how it begins."""
    words = _bare(name).split(".")
    yield from (word for word in words if not word.isdigit())
    yield from (".".join(words[:length]) for length in range(2, len(words) + 1))
