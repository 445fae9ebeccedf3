"""Families of models, one file each: how a config becomes our spec, and their names ours."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from regard.errors import DataError
from regard.interchange import families

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Take:
    """One of our weights as made from theirs."""

    name: str
    change: Callable[[Tensor], Tensor] = lambda tensor: tensor
    plus: str = ""  # another of theirs, handed on to `join`
    join: Callable[[Tensor, Tensor], Tensor] = lambda one, _other: one


@dataclass(frozen=True)
class Family:
    types: tuple[str, ...]  # what config.json calls them
    task: str
    spec: Callable[[Config], dict[str, Any]]
    names: Callable[[Config], Mapping[str, Take]]
    left_out: tuple[str, ...] = ()  # patterns of tensors that our model has no use for
    prefixes: tuple[str, ...] = ("",)  # what all names may begin with, by who saved them
    begins_with_start: bool = False  # every text has the start piece before it
    richer: tuple[tuple[str, "Family"], ...] = ()  # what it is where there is such a tensor, too

    def given(self, tensors: Iterable[str]) -> "Family":
        """What these tensors make of it: the same, or one with a head."""
        found = set(tensors)
        return next((family for name, family in self.richer if name in found), self)


def renamed(linear: Mapping[str, str], norms: Mapping[str, str]) -> dict[str, Take]:
    """Maps and norms, each with a weight and a bias, by our names and theirs."""
    found = {}
    for ours, theirs in linear.items():
        found[f"{ours}.weight"] = Take(f"{theirs}.weight")
        found[f"{ours}.bias"] = Take(f"{theirs}.bias")
    for ours, theirs in norms.items():
        found[f"{ours}.gain"] = Take(f"{theirs}.weight")
        found[f"{ours}.bias"] = Take(f"{theirs}.bias")
    return found


def family_of(config: Config) -> Family:
    kind = config.get("model_type")
    known: list[str] = []
    for module in pkgutil.iter_modules(families.__path__, f"{families.__name__}."):
        family: Family | None = getattr(importlib.import_module(module.name), "FAMILY", None)
        if family is None:
            continue
        if kind in family.types:
            return family
        known += family.types
    raise DataError(
        f"config.json: models of type '{kind}' cannot be imported, only: {', '.join(known)}."
    )


def require(config: Config, key: str, allowed: Iterable[Any]) -> None:
    """Refuse a setting that our parts have no equivalent of."""
    allowed = tuple(allowed)
    if key in config and config[key] not in allowed:
        raise DataError(
            f"config.json: {key} is {config[key]!r}, which Regard has no equivalent of "
            f"({', '.join(map(repr, allowed))})."
        )


def needed(config: Config, key: str) -> Any:
    if config.get(key) is None:
        raise DataError(f"config.json: {key} is missing.")
    return config[key]


ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "silu": "silu",
    "swish": "silu",
}


def activation(config: Config, key: str) -> str:
    require(config, key, ACTIVATIONS)
    return ACTIVATIONS[needed(config, key)]
