"""Read a run folder; an adapter is merged into the weights of its base model.

An adapter run stores only its own weights: `details.adapter` names the base run and its
fingerprint, and the two are merged whenever the run is read.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor, nn

from regard import run_folder
from regard.config import validate
from regard.data.tokenizers.tokenizer import END, PAD, START, UNKNOWN, Tokenizer
from regard.errors import RunError
from regard.models.adapters.base import AdapterSpec
from regard.models.base import ModelSpec, parameter_count
from regard.models.transfer.transplant import LABELS, PIECES, POSITIONS, Donor, Rows, transplant
from regard.models.weights import build_on_meta, set_weights, weights_of
from regard.pretrained import MODELS
from regard.run_details import details_of
from regard.run_folder import Run

MAX_ADAPTERS = 16  # on top of each other
ADAPTER = "adapter"  # key in the details of a run: the adapter's spec, its base and fingerprint


def read_merged(folder: Path, adapters: Sequence[Path] = ()) -> Run:
    """Return the run in a folder; an adapter run is merged with its base model.

    Args:
        folder: the run folder.
        adapters: folders of the adapters that this run is the base of, the first one first.

    Raises:
        RunError: the run, or the base of an adapter, is missing or damaged.
    """
    manifest = folder / run_folder.MANIFEST
    run = run_folder.read(folder)
    metadata = details_of(run, str(manifest)).adapter
    if metadata is None:
        return run
    adapters = (*adapters, folder)
    base = _base_folder(folder, metadata.base)
    _check_chain(base, adapters)
    try:
        donor = read_donor(base, metadata.fingerprint, adapters)
    except _ChainError:
        raise
    except RunError as error:
        raise RunError(
            f"{folder}: an adapter whose base model could not be loaded: {error} Its path is in "
            f"{manifest} (details.{ADAPTER}.base)."
        ) from None
    spec = validate(ModelSpec, run.model, f"{manifest}: model")
    adapter = validate(AdapterSpec, metadata.spec, f"{manifest}: {ADAPTER}")
    _check_size(spec, run, donor, str(manifest))
    model = spec.build(run.vocabulary)
    labels = run.details.get("labels", ())
    rows = table_rows(
        spec, Tokenizer.from_run(run, str(folder / run_folder.MANIFEST)), run.vocabulary, labels
    )
    done = transplant(model, spec, run.vocabulary, rows, donor)
    base_parameters = attach_adapter(model, adapter, done.whole)
    weights_path = run_folder.path_of(folder, run_folder.WEIGHTS)
    set_trained_weights(model, base_parameters, run.weights, str(weights_path))
    adapter.merge(model)
    details = {key: value for key, value in run.details.items() if key != ADAPTER}
    return replace(run, weights=weights_of(model), details=details)


def _base_folder(folder: Path, base: str) -> Path:
    """Return the base of an adapter: a path from its folder, or the name of a pretrained model."""
    path = Path(os.path.normpath(folder / base))
    return Path(base) if base in MODELS and not run_folder.exists(path) else path


def _check_size(spec: ModelSpec, run: Run, donor: Donor, manifest: str) -> None:
    """Refuse a model that is much larger than its base and its own weights, before it is built."""
    stored = [*donor.weights.values(), *run.weights.values()]
    model = build_on_meta(spec, run.vocabulary, len(stored), manifest)
    if parameter_count(model) > 2 * sum(weight.numel() for weight in stored):
        raise RunError(
            f"{manifest}: model: has {parameter_count(model):,} parameters, far more than its base "
            f"and the adapter; restore the file."
        )


class _ChainError(RunError):
    """Adapters on adapters, without end."""


def _check_chain(base: Path, adapters: Sequence[Path]) -> None:
    """Refuse a base that is one of its own adapters, and a long chain of adapters."""
    manifest = adapters[-1] / run_folder.MANIFEST
    if base.resolve() in [adapter.resolve() for adapter in adapters]:
        raise _ChainError(
            f"{manifest}: details.{ADAPTER}.base: {base} is itself an adapter of this run, so "
            f"neither has a base model; restore the path of the base."
        )
    if len(adapters) > MAX_ADAPTERS:
        raise _ChainError(
            f"{manifest}: details.{ADAPTER}.base: more than {MAX_ADAPTERS} adapters, each the base "
            f"of the next; merge some with `regard merge`."
        )


def read_donor(folder: Path, fingerprint: str | None, adapters: Sequence[Path] = ()) -> Donor:
    """Return the model of a run as a donor of weights; refuse one with another fingerprint."""
    run = read_merged(folder, adapters)
    if fingerprint not in (None, run_folder.fingerprint(folder)):
        raise RunError(
            f"{folder}: holds another model than the one that was used at first (its fingerprint "
            f"differs); restore that model, or start over."
        )
    spec = validate(ModelSpec, run.model, f"{folder / run_folder.MANIFEST}: model")
    labels = run.details.get("labels", ())
    rows = table_rows(
        spec, Tokenizer.from_run(run, str(folder / run_folder.MANIFEST)), run.vocabulary, labels
    )
    return Donor(spec, run.vocabulary, run.weights, rows)


def attach_adapter(
    model: nn.Module, adapter: AdapterSpec, unchanged: frozenset[str]
) -> frozenset[str]:
    """Attach the adapter and freeze the base model.

    Args:
        model: The model with the base's weights.
        adapter: The adapter to attach.
        unchanged: Names of the parameters that are wholly the base's.

    Returns:
        The names of those parameters after attaching.
    """
    base = [parameter for name, parameter in model.named_parameters() if name in unchanged]
    for parameter in base:
        parameter.requires_grad_(False)
    adapter.attach(model)
    frozen = set(map(id, base))
    return frozenset(
        name for name, parameter in model.named_parameters() if id(parameter) in frozen
    )


def set_trained_weights(
    model: nn.Module,
    base_parameters: frozenset[str],
    weights: Mapping[str, Tensor],
    source: str,
) -> None:
    """Set the weights that the run trained; the base model's are in place already."""
    current = weights_of(model)
    set_weights(model, {**{name: current[name] for name in base_parameters}, **weights}, source)


def table_rows(
    spec: ModelSpec, tokenizer: Tokenizer, vocabulary: int, labels: Sequence[str]
) -> dict[str, Rows]:
    """Return the names of the rows of a model's tables: pieces, positions, labels."""
    pieces = tokenizer.vocabulary()[:vocabulary]
    # Rows beyond the pieces, and ids without a piece, are named by their number.
    names = [[piece or f"#{row}"] for row, piece in enumerate(pieces)]
    names += [[f"#{row}"] for row in range(len(pieces), vocabulary)]
    ids = (tokenizer.pad, tokenizer.unknown, tokenizer.start, tokenizer.end)
    for role, row in zip((PAD, UNKNOWN, START, END), ids, strict=True):
        if row < vocabulary:
            names[row].append(role)  # [CLS] is the start token, whatever its name
    positions = [[str(position)] for position in range(spec.max_length)]
    return {PIECES: names, POSITIONS: positions, LABELS: [[label] for label in labels]}
