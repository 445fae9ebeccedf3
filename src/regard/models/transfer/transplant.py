"""Copy the parameters of one model (the donor) into another, by name, and report each of them.

    same name and shape       kept: copied
    rows with names           copied row by row (vocabulary pieces, positions, labels); rows that
                              the donor does not have stay as initialized
    another shape             changed: stays as initialized, as does the bias of such a matrix
    in one model only         added, or dropped

The parameters with a row for each vocabulary piece are found by building the model on the meta
device with one piece more: they are the ones that have grown by a row.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.models.base import ModelSpec
from regard.models.meta import on_meta
from regard.models.transfer.names import all_names, matching_name

# What rows stand for, and the spec key that counts them (pieces: the vocabulary size).
PIECES, POSITIONS, LABELS = "pieces", "positions", "labels"
COUNTED = {POSITIONS: "max_length", LABELS: "classes"}

Rows = Sequence[Sequence[str]]  # the names of each row, its own first


@dataclass(frozen=True)
class Donor:
    """The model whose parameters are copied."""

    spec: ModelSpec
    vocabulary: int
    weights: Mapping[str, Tensor]
    rows: Mapping[str, Rows]  # by what they stand for


@dataclass(frozen=True)
class Outcome:
    """Result for one parameter."""

    kind: str  # kept, changed, added or dropped
    size: int  # number of elements
    copied: int = 0  # elements copied from the donor
    note: str = ""


@dataclass(frozen=True)
class Line:
    """Result for a group of parameters; a name stands for all parameters below it."""

    status: str
    names: str
    parameters: int
    copied: int
    note: str


@dataclass(frozen=True)
class Transplant:
    """Results for all parameters."""

    outcomes: Mapping[str, Outcome]  # of the parameters of the model
    dropped: Mapping[str, Outcome]  # of the donor's parameters that were not used
    donors: Collection[str]  # names of all parameters of the donor

    @property
    def copied(self) -> int:
        return sum(outcome.copied for outcome in self.outcomes.values())

    @property
    def whole(self) -> frozenset[str]:
        """Names of the parameters that were copied completely."""
        return frozenset(
            name for name, outcome in self.outcomes.items() if outcome.copied == outcome.size
        )

    def lines(self) -> list[Line]:
        own = [
            line
            for kind in ("kept", "changed", "added")
            for line in _lines(
                {n: f for n, f in self.outcomes.items() if f.kind == kind}, self.outcomes
            )
        ]
        return [*own, *_lines(self.dropped, self.donors)]


@torch.no_grad()
def transplant(
    model: nn.Module, spec: ModelSpec, vocabulary: int, rows: Mapping[str, Rows], donor: Donor
) -> Transplant:
    """Copy the donor's parameters into the model, which was built by `spec`."""
    theirs, aliases = _all_theirs(donor)
    own_rows, their_rows = _with_rows(spec, vocabulary), _with_rows(donor.spec, donor.vocabulary)
    outcomes: dict[str, Outcome] = {}
    used: set[str] = set()
    fresh: set[str] = (
        set()
    )  # modules whose matrix has another shape: their bias is not copied either
    for name, parameter in model.named_parameters():
        stands_for = own_rows.get(name)
        candidates = {other for other in theirs if their_rows.get(other) == stands_for}
        source = matching_name(name, candidates)
        if source is None:
            outcomes[name] = Outcome("added", parameter.numel())
            continue
        used.add(aliases[source])
        weight, owner = theirs[source], name.rpartition(".")[0]
        if stands_for is not None and weight.shape[1:] == parameter.shape[1:]:
            outcomes[name] = _by_row(parameter, weight, stands_for, rows, donor.rows)
        elif weight.shape != parameter.shape:
            fresh.add(owner)
            sizes = f"starts fresh: {_shape(parameter)}, and was {_shape(weight)}"
            outcomes[name] = Outcome("changed", parameter.numel(), note=sizes)
        elif owner in fresh:
            outcomes[name] = Outcome(
                "changed", parameter.numel(), note="starts fresh, as its matrix"
            )
        else:
            parameter.copy_(weight)
            outcomes[name] = Outcome("kept", parameter.numel(), parameter.numel())
    dropped = {
        name: Outcome("dropped", weight.numel())
        for name, weight in donor.weights.items()
        if name not in used
    }
    return Transplant(outcomes, dropped, donor.weights.keys())


def _all_theirs(donor: Donor) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The donor's parameters by all their names, and the stored name of each."""
    shared = all_names(shapes(donor.spec, donor.vocabulary))
    stored = {id(shared[name]): name for name in donor.weights}
    aliases = {name: stored[id(parameter)] for name, parameter in shared.items()}
    return {name: donor.weights[first] for name, first in aliases.items()}, aliases


def _with_rows(spec: ModelSpec, vocabulary: int) -> dict[str, str]:
    """Parameters with named rows, and what the rows stand for."""
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
    """Build the model on the meta device, without memory for its parameters."""
    with on_meta():
        return spec.build(vocabulary)


def _by_row(
    parameter: nn.Parameter,
    weight: Tensor,
    stands_for: str,
    rows: Mapping[str, Rows],
    donors: Mapping[str, Rows],
) -> Outcome:
    """Copy the rows that have a name in common."""
    donor_row = _row_numbers(donors.get(stands_for, ())[: len(weight)])
    own = rows.get(stands_for, ())[: len(parameter)]
    sources = [
        next((donor_row[name] for name in names if name in donor_row), None) for names in own
    ]
    pairs = [(row, source) for row, source in enumerate(sources) if source is not None]
    if pairs:
        to, source = (torch.tensor(numbers) for numbers in zip(*pairs, strict=True))
        parameter[to.to(parameter.device)] = weight[source].to(parameter)
    copied = len(pairs) * (parameter.numel() // len(parameter))
    if len(weight) == len(parameter) and pairs == [(row, row) for row in range(len(parameter))]:
        return Outcome("kept", parameter.numel(), copied)
    note = f"{len(pairs):,} of {len(parameter):,} {stands_for}"
    if len(weight) != len(parameter):
        note += f", and there were {len(weight):,}"
    return Outcome("changed", parameter.numel(), copied, note)


def _row_numbers(rows: Rows) -> dict[str, int]:
    """Row number by name; the first name of a row takes precedence over other names."""
    numbers: dict[str, int] = {}
    for first in (True, False):
        for row, names in enumerate(rows):
            for name in names[:1] if first else names:
                numbers.setdefault(name, row)
    return numbers


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape))


def _lines(outcomes: Mapping[str, Outcome], among: Collection[str]) -> Iterator[Line]:
    """Group parameters with the same result under the shortest names that cover only them."""
    others = set(among) - outcomes.keys()
    groups: dict[tuple[str, str], list[tuple[str, Outcome]]] = defaultdict(list)
    for name, outcome in outcomes.items():
        short = name if outcome.note else _shortest(name, others)
        groups[re.sub(r"\b\d+\b", "#", short), outcome.note].append((short, outcome))
    for (_, note), members in groups.items():
        names = _together(list(dict.fromkeys(name for name, _ in members)))
        total = sum(outcome.size for _, outcome in members)
        copied = sum(outcome.copied for _, outcome in members)
        yield Line(members[0][1].kind, names, total, copied, note)


def _shortest(name: str, others: Collection[str]) -> str:
    parts = name.split(".")
    for length in range(1, len(parts)):
        start = ".".join(parts[:length])
        if not any(f"{other}.".startswith(f"{start}.") for other in others):
            return start
    return name


def _together(names: Sequence[str]) -> str:
    """Join blocks.0, blocks.1 and blocks.2 to blocks.0–2, or blocks.0,2 if a number is missing."""
    numbers = [re.findall(r"\b\d+\b", name) for name in names]
    if len(names) == 1 or any(len(digits) != 1 for digits in numbers):
        return ", ".join(names)
    layers = sorted(int(digits[0]) for digits in numbers)
    contiguous = layers == list(range(layers[0], layers[-1] + 1))
    span = f"{layers[0]}–{layers[-1]}" if contiguous else ",".join(map(str, layers))
    return re.sub(r"\b\d+\b", span, names[0], count=1)
