"""Checkpoints: everything that training needs to go on exactly as if it had never stopped.

    checkpoints/step-000400/
      state.safetensors    weights, optimiser state and averaged weights
      state.json           step, place in the data, scores so far, and the checksum of the tensors

A checkpoint is written in a folder beside its place, flushed to the disk, and renamed into it: a
`kill -9` at any moment leaves a whole one or none. On reading, the newest whose checksum matches is
taken; a damaged one is named and passed over.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from regard.data.sampling import Position
from regard.errors import OutputError, RunError
from regard.files import sync_folder, write_all_whole
from regard.training.learner import Learner

FOLDER, TENSORS, NUMBERS = "checkpoints", "state.safetensors", "state.json"


@dataclass
class Standing:
    """Where training stands: what changes from step to step besides tensors."""

    step: int = 0
    position: Position = field(default_factory=Position)  # in the data
    seconds: float = 0.0  # spent so far
    tokens: int = 0  # predicted so far
    skipped: int = 0  # updates whose loss was not finite
    skipped_in_a_row: int = 0
    best: float | None = None  # the best score on the dev data,
    best_step: int = 0  # and when
    stale: int = 0  # looks at the dev data since


def save(learner: Learner, standing: Standing, folder: Path, keep: int) -> Path:
    """Write a checkpoint into the run folder, then remove all but the last `keep` and the best."""
    parent = folder / FOLDER
    place = parent / f"step-{standing.step:06d}"
    partial = parent / f".{place.name}.partial"
    if place.exists() and _is_whole(place):
        return place  # the same step has the same state
    data = save_tensors(_tensors(learner))
    numbers = {
        "standing": asdict(standing),
        "optimisers": [_settings(each) for each in learner.optimisers],
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_all_whole(partial, {TENSORS: data, NUMBERS: json.dumps(numbers, indent=1).encode()})
        if place.exists():
            shutil.rmtree(place)
        partial.rename(place)
        sync_folder(parent)
    except (OSError, OutputError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise OutputError(
            f"{place}: the checkpoint cannot be written ({error}); make room, then go on from the "
            f"last whole one with `regard resume {folder}`."
        ) from None
    _prune(parent, keep, standing.best_step)
    return place


def restore(learner: Learner, folder: Path, warn: Callable[[str], None]) -> Standing | None:
    """Put the newest whole checkpoint of a run folder into the learner; None if there is none."""
    for place in newest_first(folder):
        try:
            tensors, numbers = _read(place)
        except (OSError, ValueError, KeyError) as error:
            warn(f"{place} is damaged ({error}) and passed over.")
            continue
        _put(learner, tensors, numbers, place)
        content = numbers["standing"]
        return Standing(**{**content, "position": Position(**content["position"])})
    return None


def newest_first(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).glob("step-*"), reverse=True)


def weights_at(folder: Path, step: int) -> dict[str, Tensor]:
    """The weights to judge the model by in the checkpoint of a step: averaged where there are."""
    tensors, _ = _read(folder / FOLDER / f"step-{step:06d}")
    average = _under(tensors, "average")
    return average or _under(tensors, "model")


def _tensors(learner: Learner) -> dict[str, Tensor]:
    model = dict(learner.model.named_parameters())
    tensors = {f"model.{name}": parameter.detach() for name, parameter in model.items()}
    if learner.average is not None:
        tensors |= {
            f"average.{name}": value
            for name, value in zip(model, learner.average.values, strict=True)
        }
    for number, optimiser in enumerate(learner.optimisers):
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{index}.{key}": value for key, value in state.items()}
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


def _settings(optimiser: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return list(optimiser.state_dict()["param_groups"])


def _is_whole(place: Path) -> bool:
    try:
        _read(place)
    except (OSError, ValueError, KeyError):
        return False
    return True


def _read(place: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    numbers = json.loads((place / NUMBERS).read_text(encoding="utf-8"))
    data = (place / TENSORS).read_bytes()
    if hashlib.sha256(data).hexdigest() != numbers["sha256"]:
        raise ValueError(f"{TENSORS} does not match its checksum")
    return load_tensors(data), numbers


@torch.no_grad()
def _put(
    learner: Learner, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any], place: Path
) -> None:
    _copy(learner.model, _under(tensors, "model"), place)
    if learner.average is not None:
        saved = _under(tensors, "average") or _under(tensors, "model")
        for (name, _), value in zip(
            learner.model.named_parameters(), learner.average.values, strict=True
        ):
            value.copy_(saved[name])
    states = [_under(tensors, f"optimiser.{n}") for n in range(len(learner.optimisers))]
    for optimiser, flat, saved_groups in zip(
        learner.optimisers, states, numbers["optimisers"], strict=True
    ):
        content = optimiser.state_dict()
        # Rates and such are the recipe's, which may have been changed on purpose.
        if [group["params"] for group in saved_groups] != [
            group["params"] for group in content["param_groups"]
        ]:
            raise RunError(f"{place}: the optimiser is not the one that it was saved from.")
        content["state"] = _nested(flat)
        optimiser.load_state_dict(content)


def _copy(model: nn.Module, weights: Mapping[str, Tensor], place: Path) -> None:
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        raise RunError(f"{place}: its weights are not those of the recipe's model.")
    for name, parameter in parameters.items():
        parameter.copy_(weights[name])


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _nested(flat: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in flat.items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    return state


def _prune(parent: Path, keep: int, best_step: int) -> None:
    kept = {f"step-{best_step:06d}"}
    for place in _outdated(parent, keep):
        if place.name not in kept:
            shutil.rmtree(place, ignore_errors=True)


def _outdated(parent: Path, keep: int) -> Iterator[Path]:
    yield from sorted(parent.glob("step-*"), reverse=True)[keep:]
    yield from parent.glob(".step-*.partial")
