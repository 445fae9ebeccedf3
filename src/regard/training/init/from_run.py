"""The model that training begins with: fresh, with the weights of another run, or beside them.

An adapter stands beside the weights of its base. They stay as they are and are not saved again: the
run folder names the base and its fingerprint, and whoever reads the run has the base read with it.
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
from regard.training.tasks.base import BoundTask

if TYPE_CHECKING:
    from regard.data.store.prepare import Prepared
    from regard.training.recipe import Recipe


@dataclass(frozen=True)
class InitReport:
    """What became of the weights of another run."""

    run: str
    settings: Mapping[str, str]  # of the model, where they are not the run's
    lines: Sequence[Line]

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "InitReport":
        return cls(**{**content, "lines": [Line(**line) for line in content["lines"]]})

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> Table:
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column(f"from {self.run}", overflow="fold")
        table.add_column("", overflow="fold")  # names are told in full
        table.add_column("parameters", justify="right", no_wrap=True)
        table.add_column("")
        for row in self._rows():
            table.add_row(*row)
        return table

    def card(self) -> str:
        rows = "".join(f"| {' | '.join(row)} |\n" for row in self._rows())
        return (
            f"## Where it began\n\n| from {self.run} | | parameters | |\n|---|---|---|---|\n{rows}"
        )

    def _rows(self) -> list[tuple[str, str, str, str]]:
        of_weights = [
            (
                each.fate,
                each.names,
                f"{each.carried:,} of {each.parameters:,}"
                if each.fate == "changed"
                else f"{each.parameters:,}",
                each.note,
            )
            for each in self.lines
        ]
        return [*of_weights, *(("set", key, "", how) for key, how in self.settings.items())]


@dataclass(frozen=True)
class InitialModel:
    """A model before its first step."""

    model: nn.Module
    report: InitReport | None = None
    base_parameters: frozenset[str] = frozenset()  # parameters of a base, which stay there


def initial_model(
    recipe: "Recipe", prepared: "Prepared", task: BoundTask, resuming: bool
) -> InitialModel:
    """The recipe's model; one that goes on has all but borrowed weights in a checkpoint."""
    spec, tokenizer = task.model(), prepared.tokenizer
    model = spec.build(len(tokenizer))
    if recipe.init is None or (resuming and recipe.adapter is None):
        return InitialModel(model)
    donor = read_donor(recipe.init.run, recipe.init.fingerprint)
    rows = table_rows(spec, tokenizer, len(tokenizer), prepared.labels)
    done = transplant(model, spec, len(tokenizer), rows, donor)
    init_report = InitReport(str(recipe.init.run), _settings(spec, donor.spec), done.lines())
    if not done.carried:
        raise ConfigError(
            f"init: no weight of {recipe.init.run} has a place in this model ("
            f"{'; '.join(f'{key}: {how}' for key, how in init_report.settings.items())}); leave "
            f"out of `model` what is not as in that run, or begin without init."
        )
    if recipe.adapter is None:
        return InitialModel(model, init_report)
    return InitialModel(model, init_report, attach_adapter(model, recipe.adapter, done.whole))


def load_trained(initial: InitialModel, weights: Mapping[str, Tensor], where: str) -> None:
    """The model's own weights; borrowed ones it has."""
    set_trained_weights(initial.model, initial.base_parameters, weights, where)


def trained_weights(initial: InitialModel) -> dict[str, Tensor]:
    has = weights_of(initial.model)
    return {name: weight for name, weight in has.items() if name not in initial.base_parameters}


def adapter_metadata(recipe: "Recipe", folder: Path) -> dict[str, Any]:
    """For the description of a run: its adapter, and where from its folder the base is found."""
    if recipe.adapter is None or recipe.init is None:
        return {}
    base = os.path.relpath(recipe.init.run, folder)
    spec, fingerprint = plain(recipe.adapter), recipe.init.fingerprint
    return {ADAPTER: {"spec": spec, "base": base, "fingerprint": fingerprint}}


def _settings(own: ModelSpec, theirs: ModelSpec) -> dict[str, str]:
    """Where two models differ: the same weights do not compute the same then."""
    ours, before = plain(own), plain(theirs)
    return {
        key: f"{_short(ours[key])}, and was {_short(before[key])}"
        for key in ours
        if key in before and ours[key] != before[key] and key not in ("size", "classes")
    }


def _short(value: Any) -> str:
    return str(value["kind"]) if isinstance(value, Mapping) and "kind" in value else str(value)
