"""Model families, one file each: from a Hugging Face config to a spec, and its weight names."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor

from regard.config import kind_specs
from regard.errors import DataError
from regard.interchange import families as package
from regard.interchange.config import HuggingFaceConfig
from regard.layers.activations.base import ActivationSpec


@dataclass(frozen=True)
class Take:
    """Source of one of Regard's weights: the name of a tensor, and a conversion."""

    name: str
    change: Callable[[Tensor], Tensor] = lambda tensor: tensor
    plus: str = ""  # a second tensor, for `join`
    join: Callable[[Tensor, Tensor], Tensor] = lambda one, _other: one


@dataclass(frozen=True)
class Computed:
    """A tensor of a checkpoint that Regard computes; its shape is compared before that."""

    shape: tuple[int, ...]
    values: Callable[[], Tensor]


@dataclass(frozen=True)
class Family:
    """A family of models that can be imported.

    `spec`, `names` and `tied` take the family's config, an object of the class `config`.
    """

    types: tuple[str, ...]  # model_type in config.json
    task: str
    config: type[HuggingFaceConfig]
    spec: Callable[[Any], dict[str, Any]]
    names: Callable[[Any], Mapping[str, Take]]
    # Tensors that must equal another one, or values that Regard computes, where the file has them.
    tied: Callable[[Any], Mapping[str, str]] = lambda _config: {}
    computed: Callable[[Any], Mapping[str, Computed]] = lambda _config: {}
    left_out: Mapping[str, str] = field(default_factory=dict)  # pattern of names → reason
    prefixes: tuple[str, ...] = ("",)  # possible prefixes of all names
    begins_with_start: bool = False  # of every text, where the tokenizer's files do not say
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


def families() -> list[Family]:
    """List the families: one of each file in this package that has any."""
    modules = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    candidates = [getattr(importlib.import_module(info.name), "FAMILY", None) for info in modules]
    return [family for family in candidates if family is not None]


def family_of(kind: Any, where: str) -> Family:
    """Return the family of a model_type; raises DataError if there is none."""
    known: list[str] = []
    for family in families():
        if isinstance(kind, str) and kind in family.types:
            return family
        known += family.types
    raise DataError(
        f"{where}: models of type {kind!r} cannot be imported, only: {', '.join(known)}."
    )


def activations() -> dict[str, str]:
    """Map the names of activations in config.json to kinds in layers/activations/."""
    specs = cast("list[type[ActivationSpec]]", kind_specs(ActivationSpec.package))
    return {name: spec.kind() for spec in specs for name in spec.hugging_face_names}


def activation(name: str, key: str) -> str:
    """Regard's name of an activation."""
    known = activations()
    if name not in known:
        raise DataError(
            f"config.json: {key} is {name!r}, which Regard does not support (supported: "
            f"{', '.join(map(repr, known))})."
        )
    return known[name]
