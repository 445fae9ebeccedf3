"""Weights by Regard's names, from the tensors of a checkpoint.

Every tensor of the checkpoint is used or explained: it equals a tensor that is used, or values that
Regard computes, or the family says why it is left out. Any other tensor is refused by name.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import DataError
from regard.interchange.families.base import Computed, Family, Take
from regard.models.base import ModelSpec
from regard.models.meta import on_meta

TABLE_TOLERANCE = 1e-3  # sinusoids of other programs are rounded to 32 or 16 bits


def rename_weights(
    family: Family, config: Any, theirs: Mapping[str, Tensor], where: Path
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the weights by Regard's names, and the reason for each tensor that is left out.

    Args:
        family: the family of the model.
        config: its config.
        theirs: the tensors of the checkpoint.
        where: the folder or file, for error messages.

    Raises:
        DataError: a tensor is missing, unknown, or contradicts the config.
    """
    return _Renaming(family, config, theirs, where).result()


def check_shapes(
    spec: ModelSpec, vocabulary: int, weights: Mapping[str, Tensor], where: Path
) -> None:
    """Compare names and shapes with those of the model, which takes no memory for it."""
    with on_meta():
        parameters = dict(spec.build(vocabulary).named_parameters())
    for name in sorted(parameters.keys() ^ weights.keys()):
        problem = "missing" if name in parameters else "not part of the model"
        raise DataError(f"{where}: {name} is {problem} that config.json describes.")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise DataError(
                f"{where}: {name} has the shape {tuple(weights[name].shape)}, and config.json "
                f"describes a model where it has {tuple(parameter.shape)}."
            )


class _Renaming:
    def __init__(
        self, family: Family, config: Any, theirs: Mapping[str, Tensor], where: Path
    ) -> None:
        self.family, self.theirs, self.where = family, theirs, where
        self.names = family.names(config)
        self.tied, self.computed = family.tied(config), family.computed(config)
        first = next(iter(self.names.values())).name
        self.prefix = next((p for p in family.prefixes if p + first in theirs), "")
        self.used: set[str] = set()

    def result(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        for take in self.names.values():  # before any work: a config may name many layers
            for name in filter(None, (take.name, take.plus)):
                self._full_name(name)
        ours = {name: self._convert(take) for name, take in self.names.items()}
        unused = sorted(set(self.theirs) - self.used)
        return ours, {name: self._explain(name) for name in unused}

    def _full_name(self, name: str) -> str:
        """The name of a tensor in the checkpoint, or of one that is tied to it."""
        names = [name, *(other for other, source in self.tied.items() if source == name)]
        for candidate in names:
            for full in (self.prefix + candidate, candidate):
                if full in self.theirs:
                    return full
        raise DataError(f"{self.where}: the weights have no {name}; the model is incomplete.")

    def _convert(self, take: Take) -> Tensor:
        tensors = [self._get(name) for name in (take.name, take.plus) if name]
        try:
            tensor = take.join(*tensors) if take.plus else take.change(tensors[0])
        except (RuntimeError, IndexError) as error:
            raise DataError(
                f"{self.where}: {take.name} has the shape {tuple(tensors[0].shape)}, which is not "
                f"one of the model that config.json describes ({str(error).splitlines()[0]})."
            ) from None
        return tensor.contiguous()

    def _get(self, name: str) -> Tensor:
        full = self._full_name(name)
        self.used.add(full)
        tensor = self.theirs[full]
        if not tensor.is_floating_point() or tensor.element_size() < 2:
            raise DataError(
                f"{self.where}: {full} has numbers of type {str(tensor.dtype).split('.')[-1]}; "
                f"Regard imports weights of 16, 32 and 64 bits that are not quantized."
            )
        tensor = tensor.float()
        if not tensor.isfinite().all():
            raise DataError(
                f"{self.where}: {full} has values that are not finite; fetch the file again."
            )
        return tensor

    def _explain(self, name: str) -> str:
        """Return the reason why a tensor is left out."""
        short = name.removeprefix(self.prefix)
        if source := self.tied.get(short, self.tied.get(name)):
            return self._check_tied(name, self._full_name(source))
        if computed := self.computed.get(name):
            return self._check_computed(name, computed)
        for pattern, reason in self.family.left_out.items():
            if re.fullmatch(pattern, short) or re.fullmatch(pattern, name):
                return reason
        raise DataError(
            f"{self.where}: the weights have {name}, which config.json does not explain; this is "
            f"another kind of model than it says."
        )

    def _check_tied(self, name: str, source: str) -> str:
        one, other = self.theirs[name], self.theirs[source]
        if one.shape != other.shape or not torch.equal(one.float(), other.float()):
            raise DataError(
                f"{self.where}: {name} differs from {source}, and config.json says that they are "
                f"the same weights; set tie_word_embeddings to false, or delete the wrong tensor."
            )
        return f"the same as {source}"

    def _check_computed(self, name: str, computed: Computed) -> str:
        theirs = self.theirs[name]
        if theirs.shape != computed.shape or not torch.allclose(
            theirs.float(), computed.values(), atol=TABLE_TOLERANCE
        ):
            raise DataError(
                f"{self.where}: {name} is not the table of positions that Regard computes for "
                f"config.json, and other tables are not supported."
            )
        return "positions, which Regard computes"
