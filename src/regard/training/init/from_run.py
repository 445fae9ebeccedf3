"""The initial model of a training: new, with the weights of another run, or an adapter of it.

An adapter leaves the weights of its base model unchanged, and they are not saved again: the run
folder names the base and its fingerprint, and reading the run reads the base as well.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from torch import Tensor, nn

from regard.config import plain
from regard.errors import ConfigError
from regard.merged_run import ADAPTER, attach_adapter, read_donor, set_trained_weights, table_rows
from regard.models.base import ModelSpec
from regard.models.transfer.transplant import Line, transplant
from regard.models.weights import weights_of
from regard.pretrained import is_pretrained
from regard.training.tasks.base import BoundTask

if TYPE_CHECKING:
    from regard.data.store.prepare import Prepared
    from regard.training.recipe import Recipe


@dataclass(frozen=True)
class InitReport:
    """Report of which weights of another run were used, for the console and the model card."""

    run: str
    settings: Mapping[str, str]  # of the model, where they differ from the run's
    lines: Sequence[Line]

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "InitReport":
        return cls(**{**content, "lines": [Line(**line) for line in content["lines"]]})

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON can hold it."""
        return asdict(self)

    def table(self) -> Table:
        """Return the report as a table for the console."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(f"from {self.run}", overflow="fold")
        table.add_column("", overflow="fold")  # names are shown in full
        table.add_column("parameters", justify="right", no_wrap=True)
        table.add_column("")
        for row in self._rows():
            table.add_row(*row)
        return table

    def card(self) -> str:
        """Return the report as a section of the model card."""
        rows = "".join(f"| {' | '.join(row)} |\n" for row in self._rows())
        return (
            f"## Initial weights\n\n| from {self.run} | | parameters | |\n|---|---|---|---|\n{rows}"
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        weights = [
            (
                line.status,
                line.names,
                f"{line.copied:,} of {line.parameters:,}"
                if line.status == "changed"
                else f"{line.parameters:,}",
                line.note,
            )
            for line in self.lines
        ]
        return [*weights, *(("set", key, "", how) for key, how in self.settings.items())]


@dataclass(frozen=True)
class InitialModel:
    """A model before its first step."""

    model: nn.Module
    report: InitReport | None = None
    base_parameters: frozenset[str] = (
        frozenset()
    )  # names of the base model's parameters, which are not saved


def initial_model(
    recipe: "Recipe", prepared: "Prepared", task: BoundTask, resuming: bool
) -> InitialModel:
    """Build the recipe's model with its initial weights.

    When resuming, only the parameters of a base model are needed: the others are in a checkpoint.
    """
    spec, tokenizer = task.model(), prepared.tokenizer
    model = spec.build(len(tokenizer))
    if recipe.init is None or (resuming and recipe.adapter is None):
        return InitialModel(model)
    donor = read_donor(recipe.init.run, recipe.init.fingerprint)
    rows = table_rows(spec, tokenizer, len(tokenizer), prepared.labels)
    done = transplant(model, spec, len(tokenizer), rows, donor)
    init_report = InitReport(str(recipe.init.run), _settings(spec, donor.spec), done.lines())
    if not done.copied:
        raise ConfigError(
            f"init: no weight of {recipe.init.run} fits this model ("
            f"{'; '.join(f'{key}: {how}' for key, how in init_report.settings.items())}); leave "
            f"out of `model` the settings that differ, or leave out init."
        )
    if recipe.adapter is None:
        return InitialModel(model, init_report)
    return InitialModel(model, init_report, attach_adapter(model, recipe.adapter, done.whole))


def load_trained(initial: InitialModel, weights: Mapping[str, Tensor], where: str) -> None:
    """Set the weights that the run trained; the base model's are in place already."""
    set_trained_weights(initial.model, initial.base_parameters, weights, where)


def trained_weights(initial: InitialModel) -> dict[str, Tensor]:
    """Return the weights to save: all but the base model's."""
    weights = weights_of(initial.model)
    return {name: weight for name, weight in weights.items() if name not in initial.base_parameters}


def adapter_metadata(recipe: "Recipe", folder: Path) -> dict[str, Any]:
    """Return the details of an adapter run: its spec, the path of its base and the fingerprint."""
    if recipe.adapter is None or recipe.init is None:
        return {}
    run = recipe.init.run
    base = str(run) if is_pretrained(run) else os.path.relpath(run, folder)
    spec, fingerprint = plain(recipe.adapter), recipe.init.fingerprint
    return {ADAPTER: {"spec": spec, "base": base, "fingerprint": fingerprint}}


def _settings(own: ModelSpec, theirs: ModelSpec) -> dict[str, str]:
    """Return the settings in which two models differ: equal weights then compute other outputs."""
    ours, before = plain(own), plain(theirs)
    return {
        key: f"{_short(ours[key])}, and was {_short(before[key])}"
        for key in ours
        if key in before and ours[key] != before[key] and key not in ("size", "classes")
    }


def _short(value: Any) -> str:
    return str(value["kind"]) if isinstance(value, Mapping) and "kind" in value else str(value)
