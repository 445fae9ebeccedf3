"""The model that training begins with: fresh, with the weights of another run, or beside them.

An adapter stands beside the weights of its base. They stay as they are and are not saved again: the
run folder names the base and its fingerprint, and whoever reads the run has the base read with it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from torch import Tensor, nn

from regard import runs
from regard.config import plain, validate
from regard.data.tokenizer import END, PAD, START, UNKNOWN, Tokenizer
from regard.errors import ConfigError, RunError
from regard.models.adapters import AdapterSpec
from regard.models.kind import ModelSpec
from regard.models.transplant import (
    LABELS,
    PIECES,
    POSITIONS,
    Donor,
    Line,
    Rows,
    transplant,
)
from regard.models.weights import set_weights, weights_of
from regard.runs import Run
from regard.training.jobs import Task
from regard.training.origin import InitSpec

if TYPE_CHECKING:
    from regard.data.prepare import Prepared
    from regard.training.recipe import Recipe

ADAPTER = "adapter"  # in the details of a run: what it is, and of which base


@dataclass(frozen=True)
class Inherited:
    """What became of the weights of another run."""

    run: str
    settings: Mapping[str, str]  # of the model, where they are not the run's
    lines: Sequence[Line]

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "Inherited":
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
class Start:
    """A model before its first step."""

    model: nn.Module
    inherited: Inherited | None = None
    borrowed: frozenset[str] = frozenset()  # parameters of a base, which stay there


def start(recipe: "Recipe", prepared: "Prepared", task: Task, resuming: bool) -> Start:
    """The recipe's model; one that goes on has all but borrowed weights in a checkpoint."""
    spec, tokenizer = task.model(), prepared.tokenizer
    model = spec.build(len(tokenizer))
    if recipe.init is None or (resuming and recipe.adapter is None):
        return Start(model)
    donor = _donor(recipe.init)
    rows = _rows(spec, tokenizer, len(tokenizer), prepared.labels)
    done = transplant(model, spec, len(tokenizer), rows, donor)
    inherited = Inherited(str(recipe.init.run), _settings(spec, donor.spec), done.lines())
    if not done.carried:
        raise ConfigError(
            f"init: no weight of {recipe.init.run} has a place in this model ("
            f"{'; '.join(f'{key}: {how}' for key, how in inherited.settings.items())}); leave out "
            f"of `model` what is not as in that run, or begin without init."
        )
    if recipe.adapter is None:
        return Start(model, inherited)
    return Start(model, inherited, _beside(model, recipe.adapter, done.whole))


def give(begun: Start, weights: Mapping[str, Tensor], where: str) -> None:
    """The model's own weights; borrowed ones it has."""
    has = weights_of(begun.model)
    set_weights(begun.model, {**{name: has[name] for name in begun.borrowed}, **weights}, where)


def own_weights(begun: Start) -> dict[str, Tensor]:
    has = weights_of(begun.model)
    return {name: weight for name, weight in has.items() if name not in begun.borrowed}


def note_of(recipe: "Recipe", folder: Path) -> dict[str, Any]:
    """For the description of a run: its adapter, and where from its folder the base is found."""
    if recipe.adapter is None or recipe.init is None:
        return {}
    base = os.path.relpath(recipe.init.run, folder)
    spec, fingerprint = plain(recipe.adapter), recipe.init.fingerprint
    return {ADAPTER: {"spec": spec, "base": base, "fingerprint": fingerprint}}


def read_whole(folder: Path) -> Run:
    """The run in a folder; an adapter's with its base, merged: an ordinary one."""
    run = runs.read(folder)
    note = run.details.get(ADAPTER)
    if note is None:
        return run
    base = Path(os.path.normpath(folder / note["base"]))
    try:
        donor = _donor(InitSpec(run=base, fingerprint=note["fingerprint"]))
    except RunError as error:
        raise RunError(
            f"{folder}: an adapter, and its base cannot be had: {error} Where it is found is said "
            f"in {folder / runs.DESCRIPTION} (details.{ADAPTER}.base)."
        ) from None
    spec = validate(ModelSpec, run.model, f"{folder / runs.DESCRIPTION}: model")
    adapter = validate(AdapterSpec, note["spec"], f"{folder / runs.DESCRIPTION}: {ADAPTER}")
    model = spec.build(run.vocabulary)
    labels = run.details.get("labels", ())
    rows = _rows(spec, Tokenizer.from_run(run), run.vocabulary, labels)
    done = transplant(model, spec, run.vocabulary, rows, donor)
    begun = Start(model, borrowed=_beside(model, adapter, done.whole))
    give(begun, run.weights, str(folder / runs.WEIGHTS))
    adapter.merge(model)
    details = {key: value for key, value in run.details.items() if key != ADAPTER}
    return replace(run, weights=weights_of(model), details=details)


def _beside(model: nn.Module, adapter: AdapterSpec, whole: frozenset[str]) -> frozenset[str]:
    """Attach the adapter; what is wholly the base's is held still, and named as it is then."""
    borrowed = [each for name, each in model.named_parameters() if name in whole]
    for parameter in borrowed:
        parameter.requires_grad_(False)
    adapter.attach(model)
    held = set(map(id, borrowed))
    return frozenset(name for name, each in model.named_parameters() if id(each) in held)


def _donor(init: InitSpec) -> Donor:
    run = read_whole(init.run)
    if init.fingerprint not in (None, runs.fingerprint(init.run)):
        raise RunError(
            f"{init.run}: holds another model than the one that was begun with (its fingerprint "
            f"differs); bring that one back, or begin anew."
        )
    spec = validate(ModelSpec, run.model, f"{init.run / runs.DESCRIPTION}: model")
    labels = run.details.get("labels", ())
    rows = _rows(spec, Tokenizer.from_run(run), run.vocabulary, labels)
    return Donor(spec, run.vocabulary, run.weights, rows)


def _rows(
    spec: ModelSpec, tokenizer: Tokenizer, vocabulary: int, labels: Sequence[str]
) -> dict[str, Rows]:
    """What the rows of a model's tables are called."""
    pieces = tokenizer.vocabulary()[:vocabulary]
    # Rows beyond the pieces, and ids that a file leaves out, go by their number.
    names = [[piece or f"#{row}"] for row, piece in enumerate(pieces)]
    names += [[f"#{row}"] for row in range(len(pieces), vocabulary)]
    ids = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end)
    for role, row in zip((PAD, UNKNOWN, START, END), ids, strict=True):
        if row < vocabulary:
            names[row].append(role)  # [CLS] is the start, whatever it is called
    positions = [[str(position)] for position in range(spec.max_length)]
    return {PIECES: names, POSITIONS: positions, LABELS: [[label] for label in labels]}


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
