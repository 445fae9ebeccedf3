"""Checkpoints: everything that training needs to go on exactly as if it had never stopped.

    checkpoints/step-000400/
      state.safetensors    weights, optimizer state and averaged weights
      state.json           step, place in the data, scores so far, and the checksums of all this

A checkpoint is written in a folder beside its place, flushed to the disk, and renamed into it: a
`kill -9` at any moment leaves a whole one or none. On reading, the newest whose checksums match is
taken; a damaged one is named and passed over.

Where the weights are in parts, each process writes its own, `shard-00001-….safetensors` and so on,
by torch's distributed checkpoint. That also reads: parts into other parts, or into whole tensors,
so that a run goes on with another number of processes. Its safetensors storage knows no pickles.
Where experts are spread, the leading process is sent what it has not, and writes all.
"""

import hashlib
import json
import shutil
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as load_parts
from torch.distributed.checkpoint.state_dict_saver import save as save_parts

from regard.atomic import fsync_folder, write_atomic
from regard.data.sampling.sampler import DataCursor
from regard.errors import OutputError, RunError
from regard.training.distributed.expert_parallel import gather_to_main
from regard.training.distributed.world import World
from regard.training.learner import Learner

FOLDER, TENSORS, NUMBERS = "checkpoints", "state.safetensors", "state.json"
DAMAGED = (OSError, ValueError, KeyError, TypeError)  # what reading half of something may raise

T = TypeVar("T")


@dataclass
class TrainState:
    """Where training stands: what changes from step to step besides tensors."""

    step: int = 0
    position: DataCursor = field(default_factory=DataCursor)  # in the data
    elapsed_seconds: float = 0.0
    target_tokens: int = 0  # tokens predicted so far
    skipped: int = 0  # updates whose loss was not finite
    skipped_in_a_row: int = 0
    best: float | None = None  # the best score on the dev data,
    best_step: int = 0  # and when
    evals_since_best: int = 0  # looks at the dev data since


def save(learner: Learner, standing: TrainState, folder: Path, keep: int) -> Path:
    """Write a checkpoint into the run folder, then remove all but the last `keep` and the best.

    All processes take part; it is there when they go on, or none of them does.
    """
    leads = learner.world.is_main
    place = _place(folder, standing.step)
    partial = place.with_name(f".{place.name}.partial")
    if learner.world.broadcast(leads and place.exists() and _damage(place) is None):
        return place  # the same step has the same state
    try:
        with _writing(place, learner.world):
            if leads:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
        with _writing(place, learner.world):
            own = _write_tensors(learner, partial)
        checksums = dict(ChainMap(*learner.world.all_gather(own)))
        with _writing(place, learner.world):
            if leads:
                write_atomic(partial / NUMBERS, _numbers(learner, standing, checksums))
                shutil.rmtree(place, ignore_errors=True)
                partial.rename(place)
                fsync_folder(place.parent)
                _prune(place.parent, keep, standing.best_step)
    finally:
        if leads:
            shutil.rmtree(partial, ignore_errors=True)
    return place


def restore(learner: Learner, folder: Path, warn: Callable[[str], None]) -> TrainState | None:
    """Put the newest whole checkpoint of a run folder into the learner; None if there is none."""
    world = learner.world
    for place in world.broadcast(newest_first(folder)):
        # Each process looks at some of the files.
        found = world.all_gather(_damage(place, world.rank, world.size))
        if damage := next(filter(None, found), None):
            warn(f"{place} is damaged ({damage}) and passed over.")
            continue
        numbers = _read(place)
        _put(learner, numbers["optimizers"], place)
        content = numbers["train_state"]
        return TrainState(**{**content, "position": DataCursor(**content["position"])})
    return None


def weights_at(folder: Path, step: int) -> dict[str, Tensor]:
    """The weights to judge the model by in the checkpoint of a step: averaged where there are."""
    place = _place(folder, step)
    if damage := _damage(place):
        raise RunError(
            f"{place}: damaged ({damage}), and the run was to end with its weights; "
            f"`regard resume {folder} training.evaluation.select=last` takes the last ones."
        )
    stored = _stored(place)
    parts = ("model", "ema")  # only what is trained has an average
    weights = {
        f"{part}.{name}": _room(each)
        for part in parts
        for name, each in _under(stored, part).items()
        if part == "ema" or f"ema.{name}" not in stored
    }
    _fill(weights, place, World())
    return {name: each for part in parts for name, each in _under(weights, part).items()}


def newest_first(folder: Path) -> list[Path]:
    return _newest_first(folder / FOLDER)


def _newest_first(parent: Path) -> list[Path]:
    # A longer number is a larger one: the millionth step is newer than the one before it.
    return sorted(parent.glob("step-*"), key=lambda at: (len(at.name), at.name), reverse=True)


def _place(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"step-{step:06d}"


@contextmanager
def _writing(place: Path, world: World) -> Iterator[None]:
    with world.fail_together():
        try:
            yield
        except (OSError, OutputError) as error:
            raise OutputError(
                f"{place}: the checkpoint cannot be written ({error}); make room, then go on from "
                f"the last whole one with `regard resume {place.parent.parent}`."
            ) from None


def _write_tensors(learner: Learner, partial: Path) -> dict[str, str]:
    """Write what this process has to; the checksum of each file, by its name."""
    tensors = _weights(learner)
    for number, optimizer in enumerate(learner.optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{key}": value for key, value in state.items()}
    if learner.sharded:
        return _write_parts(tensors, partial, learner.world)
    if learner.spread:
        tensors = gather_to_main(tensors, learner.world)
    if not learner.world.is_main:
        return {}
    data = save_tensors({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    write_atomic(partial / TENSORS, data)
    return {TENSORS: hashlib.sha256(data).hexdigest()}


def _write_parts(tensors: Mapping[str, Tensor], partial: Path, world: World) -> dict[str, str]:
    writer = HuggingFaceStorageWriter(str(partial), save_distributed=True)
    try:
        save_parts(dict(tensors), storage_writer=writer, process_group=world.control)
    except CheckpointException as failed:  # in every process, whoever it was
        error, _ = next(iter(failed.failures.values()))
        raise OutputError(str(error)) from None
    own = partial.glob(f"shard-{world.rank + 1:05d}-*")
    return {path.name: _checksum(path) for path in own}


def _weights(learner: Learner) -> dict[str, Tensor]:
    model = dict(learner.model.named_parameters())
    own = [name for name in model if name not in learner.base_parameters]
    weights = {f"model.{name}": model[name].detach() for name in own}
    if learner.ema is not None:
        trained = [name for name, parameter in model.items() if parameter.requires_grad]
        values = zip(trained, learner.ema.values, strict=True)
        weights |= {f"ema.{name}": value for name, value in values}
    return weights


def _numbers(learner: Learner, standing: TrainState, checksums: Mapping[str, str]) -> bytes:
    numbers = {
        "train_state": asdict(standing),
        "optimizers": [_members(each) for each in learner.optimizers],
        "files": dict(checksums),
    }
    return json.dumps({**numbers, "sha256": _checksum_of(numbers)}, indent=1).encode()


def _checksum_of(numbers: Mapping[str, Any]) -> str:
    others = {key: value for key, value in numbers.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _members(optimizer: torch.optim.Optimizer) -> list[list[int]]:
    """Which weights are in which of its groups."""
    return [group["params"] for group in optimizer.state_dict()["param_groups"]]


def _read(place: Path) -> dict[str, Any]:
    return dict(json.loads((place / NUMBERS).read_text(encoding="utf-8")))


def _damage(place: Path, rank: int = 0, size: int = 1) -> str | None:
    """What is wrong with a checkpoint, as far as one of several who look at it can tell."""
    try:
        numbers = _read(place)
        if numbers["sha256"] != _checksum_of(numbers):
            return f"{NUMBERS} does not match its checksum"
        for name, checksum in sorted(numbers["files"].items())[rank::size]:
            if _checksum(place / name) != checksum:
                return f"{name} does not match its checksum"
    except DAMAGED as error:
        return str(error)
    return None


@torch.no_grad()
def _put(learner: Learner, members: list[list[list[int]]], place: Path) -> None:
    stored, weights = _stored(place), _weights(learner)
    if {name: each.size for name, each in _under(stored, "model").items()} != {
        name: each.shape for name, each in _under(weights, "model").items()
    }:
        raise RunError(f"{place}: its weights are not those of the recipe's model.")
    # Rates and such are the recipe's, which may have been changed on purpose.
    if members != [_members(each) for each in learner.optimizers]:
        raise RunError(f"{place}: the optimizer is not the one that it was saved from.")
    targets = {name: t for name, t in weights.items() if name in stored and not t.is_meta}
    states = [_state(each, n, stored) for n, each in enumerate(learner.optimizers)]
    for number, state in enumerate(states):
        for index, tensors in state.items():
            targets |= {f"optimizer.{number}.{index}.{key}": t for key, t in tensors.items()}
    _fill(targets, place, learner.world)
    for optimizer, state in zip(learner.optimizers, states, strict=True):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    for name, value in _under(weights, "ema").items():
        if f"ema.{name}" not in stored:  # asked for only now: it begins with the weights
            value.copy_(weights[f"model.{name}"])


def _state(
    optimizer: torch.optim.Optimizer, number: int, stored: Mapping[str, TensorStorageMetadata]
) -> dict[int, dict[str, Tensor]]:
    """Room for the state of an optimizer, by the number of the weight; in parts as the weight."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, each in _under(stored, f"optimizer.{number}").items():
        index, _, key = name.partition(".")
        weight = weights[int(index)]
        if weight.is_meta:  # another process has it, and its state
            continue
        room = torch.zeros_like(weight) if weight.shape == each.size else _room(each)
        state.setdefault(int(index), {})[key] = room
    return state


def _room(stored: TensorStorageMetadata) -> Tensor:
    return torch.zeros(stored.size, dtype=stored.properties.dtype)


def _stored(place: Path) -> dict[str, TensorStorageMetadata]:
    """What tensors there are in a checkpoint, whatever files they are spread over."""
    found = HuggingFaceStorageReader(str(place)).read_metadata().state_dict_metadata
    return {name: each for name, each in found.items() if isinstance(each, TensorStorageMetadata)}


def _fill(tensors: dict[str, Tensor], place: Path, world: World) -> None:
    """Each tensor with what the checkpoint has under its name."""
    reader = HuggingFaceStorageReader(str(place))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        alone = world.size == 1
        load_parts(tensors, storage_reader=reader, process_group=world.control, no_dist=alone)


def _under(tensors: Mapping[str, T], prefix: str) -> dict[str, T]:
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _prune(parent: Path, keep: int, best_step: int) -> None:
    kept = {f"step-{best_step:06d}"}
    for place in _outdated(parent, keep):
        if place.name not in kept:
            shutil.rmtree(place, ignore_errors=True)


def _outdated(parent: Path, keep: int) -> Iterator[Path]:
    yield from _newest_first(parent)[keep:]
    yield from parent.glob(".step-*.partial")
