"""Weights of one model into another, by name; whatever does not fit is told, never guessed.

    same name and shape            kept
    rows with names of their own   carried one by one (pieces of a vocabulary, positions, labels);
                                   those that the other model does not have keep their first weights
    another shape                  keeps its first weights, and so does the bias of such a matrix
    in one of the models only      added, or dropped

Which parameters have a row a piece, a model says itself: it is built with one piece more, without
memory, and what has grown by a row has one a piece.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.base import ModelSpec
from regard.models.transfer.names import all_names, matching_name

# What rows may stand for: of a vocabulary, or of what this key of a spec counts.
PIECES, POSITIONS, LABELS = "pieces", "positions", "labels"
COUNTED = {POSITIONS: "max_length", LABELS: "classes"}

Rows = Sequence[Sequence[str]]  # the names each row goes by, its own first


@dataclass(frozen=True)
class Donor:
    """A model whose weights are taken."""

    spec: ModelSpec
    vocabulary: int
    weights: Mapping[str, Tensor]
    rows: Mapping[str, Rows]  # by what they stand for


@dataclass(frozen=True)
class Fate:
    """What became of a parameter."""

    kind: str  # kept, changed, added or dropped
    size: int  # numbers in it
    carried: int = 0  # so many of them are the donor's
    note: str = ""


@dataclass(frozen=True)
class Line:
    """What became of some parameters, in short: a name stands for all that is below it."""

    fate: str
    names: str
    parameters: int
    carried: int
    note: str


@dataclass(frozen=True)
class Transplant:
    fates: Mapping[str, Fate]  # of the parameters of the model
    dropped: Mapping[str, Fate]  # and of the donor's that have no place in it
    donors: Collection[str]  # all of the donor's parameters

    @property
    def carried(self) -> int:
        return sum(fate.carried for fate in self.fates.values())

    @property
    def whole(self) -> frozenset[str]:
        """The parameters of which every number is the donor's."""
        return frozenset(name for name, fate in self.fates.items() if fate.carried == fate.size)

    def lines(self) -> list[Line]:
        own = [
            line
            for kind in ("kept", "changed", "added")
            for line in _lines({n: f for n, f in self.fates.items() if f.kind == kind}, self.fates)
        ]
        return [*own, *_lines(self.dropped, self.donors)]


@torch.no_grad()
def transplant(
    model: nn.Module, spec: ModelSpec, vocabulary: int, rows: Mapping[str, Rows], donor: Donor
) -> Transplant:
    """Give the model, built by `spec`, the donor's weights wherever they have a place in it."""
    theirs, aliases = _all_theirs(donor)
    own_rows, their_rows = _with_rows(spec, vocabulary), _with_rows(donor.spec, donor.vocabulary)
    fates: dict[str, Fate] = {}
    used: set[str] = set()
    fresh: set[str] = set()  # modules of which the matrix could not be taken: nor is its bias
    for name, parameter in model.named_parameters():
        stands_for = own_rows.get(name)
        alike = {each for each in theirs if their_rows.get(each) == stands_for}
        source = matching_name(name, alike)
        if source is None:
            fates[name] = Fate("added", parameter.numel())
            continue
        used.add(aliases[source])
        given, owner = theirs[source], name.rpartition(".")[0]
        if stands_for is not None and given.shape[1:] == parameter.shape[1:]:
            fates[name] = _by_row(parameter, given, stands_for, rows, donor.rows)
        elif given.shape != parameter.shape:
            fresh.add(owner)
            sizes = f"starts fresh: {_shape(parameter)}, and was {_shape(given)}"
            fates[name] = Fate("changed", parameter.numel(), note=sizes)
        elif owner in fresh:
            fates[name] = Fate("changed", parameter.numel(), note="starts fresh, as its matrix")
        else:
            parameter.copy_(given)
            fates[name] = Fate("kept", parameter.numel(), parameter.numel())
    dropped = {
        name: Fate("dropped", weight.numel())
        for name, weight in donor.weights.items()
        if name not in used
    }
    return Transplant(fates, dropped, donor.weights.keys())


def _all_theirs(donor: Donor) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The donor's weights by all their names, and by which of these each is stored."""
    shared = all_names(shapes(donor.spec, donor.vocabulary))
    stored = {id(shared[name]): name for name in donor.weights}
    aliases = {name: stored[id(parameter)] for name, parameter in shared.items()}
    return {name: donor.weights[first] for name, first in aliases.items()}, aliases


def _with_rows(spec: ModelSpec, vocabulary: int) -> dict[str, str]:
    """The parameters whose rows stand for something, and for what."""
    before = all_names(shapes(spec, vocabulary))
    larger = {PIECES: shapes(spec, vocabulary + 1)}
    for what, key in COUNTED.items():
        if key in type(spec).model_fields:
            one_more = spec.model_copy(update={key: getattr(spec, key) + 1})
            larger[what] = shapes(one_more, vocabulary)
    return {
        name: what
        for what, model in larger.items()
        for name, parameter in all_names(model).items()
        if len(parameter) == len(before[name]) + 1
    }


def shapes(spec: ModelSpec, vocabulary: int) -> nn.Module:
    """The model without its numbers."""
    with torch.device("meta"):
        return spec.build(vocabulary)


def _by_row(
    parameter: nn.Parameter,
    given: Tensor,
    stands_for: str,
    rows: Mapping[str, Rows],
    donors: Mapping[str, Rows],
) -> Fate:
    at = _places(donors.get(stands_for, ())[: len(given)])
    own = rows.get(stands_for, ())[: len(parameter)]
    known = [next((at[name] for name in names if name in at), None) for names in own]
    pairs = [(row, there) for row, there in enumerate(known) if there is not None]
    if pairs:
        to, source = (torch.tensor(each) for each in zip(*pairs, strict=True))
        parameter[to.to(parameter.device)] = given[source].to(parameter)
    carried = len(pairs) * (parameter.numel() // len(parameter))
    if len(given) == len(parameter) and pairs == [(row, row) for row in range(len(parameter))]:
        return Fate("kept", parameter.numel(), carried)
    note = f"{len(pairs):,} of {len(parameter):,} {stands_for}"
    if len(given) != len(parameter):
        note += f", and there were {len(given):,}"
    return Fate("changed", parameter.numel(), carried, note)


def _places(rows: Rows) -> dict[str, int]:
    """Which row goes by a name; its own name goes before those that others have besides."""
    at: dict[str, int] = {}
    for first in (True, False):
        for row, names in enumerate(rows):
            for name in names[:1] if first else names:
                at.setdefault(name, row)
    return at


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape))


def _lines(fates: Mapping[str, Fate], among: Collection[str]) -> Iterator[Line]:
    """Parameters of one fate: by the shortest names below which there is nothing else."""
    others = set(among) - fates.keys()
    groups: dict[tuple[str, str], list[tuple[str, Fate]]] = defaultdict(list)
    for name, fate in fates.items():
        short = name if fate.note else _shortest(name, others)
        groups[re.sub(r"\b\d+\b", "#", short), fate.note].append((short, fate))
    for (_, note), members in groups.items():
        names = _together(list(dict.fromkeys(name for name, _ in members)))
        total = sum(fate.size for _, fate in members)
        carried = sum(fate.carried for _, fate in members)
        yield Line(members[0][1].kind, names, total, carried, note)


def _shortest(name: str, others: Collection[str]) -> str:
    parts = name.split(".")
    for length in range(1, len(parts)):
        start = ".".join(parts[:length])
        if not any(f"{other}.".startswith(f"{start}.") for other in others):
            return start
    return name


def _together(names: Sequence[str]) -> str:
    """blocks.0, blocks.1 and blocks.2 as blocks.0–2; where numbers are left out, each is named."""
    numbers = [re.findall(r"\b\d+\b", name) for name in names]
    if len(names) == 1 or any(len(each) != 1 for each in numbers):
        return ", ".join(names)
    found = sorted(int(each[0]) for each in numbers)
    run = found == list(range(found[0], found[-1] + 1))
    span = f"{found[0]}–{found[-1]}" if run else ",".join(map(str, found))
    return re.sub(r"\b\d+\b", span, names[0], count=1)
