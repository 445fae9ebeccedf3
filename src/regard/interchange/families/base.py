"""Model families, one file each: from a Hugging Face config to a spec, and its weight names."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from regard.config import kind_specs
from regard.errors import DataError
from regard.interchange import families
from regard.layers.activations.base import ActivationSpec

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Take:
    """Source of one of Regard's weights: the name of a tensor, and a conversion."""

    name: str
    change: Callable[[Tensor], Tensor] = lambda tensor: tensor
    plus: str = ""  # a second tensor, for `join`
    join: Callable[[Tensor, Tensor], Tensor] = lambda one, _other: one


@dataclass(frozen=True)
class Family:
    """A family of models that can be imported."""

    types: tuple[str, ...]  # model_type in config.json
    task: str
    spec: Callable[[Config], dict[str, Any]]
    names: Callable[[Config], Mapping[str, Take]]
    left_out: tuple[str, ...] = ()  # patterns of tensors that Regard does not use
    prefixes: tuple[str, ...] = ("",)  # possible prefixes of all names
    begins_with_start: bool = False  # every text starts with the start token
    richer: tuple[tuple[str, "Family"], ...] = ()  # the family to use if there is such a tensor

    def for_tensors(self, tensors: Iterable[str]) -> "Family":
        """Return the family for these tensors: this one, or one with a head."""
        names = set(tensors)
        return next((family for name, family in self.richer if name in names), self)


def renamed(linear: Mapping[str, str], norms: Mapping[str, str]) -> dict[str, Take]:
    """Linear layers and norms with weight and bias: Regard's names to Hugging Face's."""
    takes = {}
    for ours, theirs in linear.items():
        takes[f"{ours}.weight"] = Take(f"{theirs}.weight")
        takes[f"{ours}.bias"] = Take(f"{theirs}.bias")
    for ours, theirs in norms.items():
        takes[f"{ours}.gain"] = Take(f"{theirs}.weight")
        takes[f"{ours}.bias"] = Take(f"{theirs}.bias")
    return takes


def family_of(config: Config) -> Family:
    """Return the family of a config; raises DataError if there is none."""
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
    """Refuse a setting that Regard does not support."""
    allowed = tuple(allowed)
    if key in config and config[key] not in allowed:
        raise DataError(
            f"config.json: {key} is {config[key]!r}, which Regard does not support "
            f"(supported: {', '.join(map(repr, allowed))})."
        )


def needed(config: Config, key: str) -> Any:
    """Value of a key that must be present."""
    if config.get(key) is None:
        raise DataError(f"config.json: {key} is missing.")
    return config[key]


def activations() -> dict[str, str]:
    """Map the names of activations in config.json to kinds in layers/activations/."""
    specs = cast("list[type[ActivationSpec]]", kind_specs(ActivationSpec.package))
    return {name: spec.kind() for spec in specs for name in spec.hugging_face_names}


def activation(config: Config, key: str) -> str:
    """Regard's name of an activation."""
    known = activations()
    require(config, key, known)
    return known[needed(config, key)]
