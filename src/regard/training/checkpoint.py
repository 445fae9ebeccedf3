"""Checkpoints: everything that is needed to resume training exactly.

    checkpoints/step-000400/
      state.safetensors    weights, optimizer state and EMA
      state.json           step, position in the data, best score, and checksums of all files

A checkpoint is written into a temporary folder, flushed to the disk, and renamed: a `kill -9` at
any moment leaves a complete one or none. On reading, the newest whose checksums match is taken; a
damaged one is named and skipped.

With FSDP each process writes its shards, `shard-00001-….safetensors` and so on, by torch's
distributed checkpoint, which also reads them, into other shards or into full tensors, so that a run
can be resumed with another number of processes. Its safetensors storage has no pickles. With expert
parallelism, the main process is sent the experts that it does not have, and writes all.
"""

import hashlib
import json
import secrets
import shutil
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import ConfigDict, Field
from safetensors.torch import save as save_tensors
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from regard.atomic import fsync_folder, write_atomic
from regard.data.sampling.sampler import DataCursor
from regard.errors import OutputError, RunError
from regard.json_files import JsonSpec, read_json, validate_json
from regard.training.distributed.expert_parallel import gather_to_main
from regard.training.distributed.world import World
from regard.training.learner import Learner

FOLDER, TENSORS, STATE = "checkpoints", "state.safetensors", "state.json"
READ_ERRORS = (OSError, ValueError, KeyError, TypeError, RunError)  # raised by damaged files

T = TypeVar("T")


@dataclass
class TrainState:
    """The state of training besides tensors."""

    step: int = 0
    position: DataCursor = field(default_factory=DataCursor)  # in the data
    elapsed_seconds: float = 0.0
    target_tokens: int = 0  # tokens predicted so far
    skipped: int = 0  # updates whose loss was not finite
    skipped_in_a_row: int = 0
    best: float | None = None  # the best score on the dev data
    best_step: int = 0
    evals_since_best: int = 0  # evaluations since then


class _Cursor(JsonSpec):
    model_config = ConfigDict(extra="forbid")

    epoch: int = Field(ge=0)
    pool: int = Field(ge=0)
    batch: int = Field(ge=0)


class _TrainState(JsonSpec):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=True)

    step: int = Field(ge=0)
    position: _Cursor
    elapsed_seconds: float = Field(ge=0)
    target_tokens: int = Field(ge=0)
    skipped: int = Field(ge=0)
    skipped_in_a_row: int = Field(ge=0)
    best: float | None
    best_step: int = Field(ge=0)
    evals_since_best: int = Field(ge=0)


class _State(JsonSpec):
    """The content of state.json."""

    train_state: _TrainState
    optimizers: list[list[list[int]]]
    files: dict[str, str]
    sha256: str


def save(learner: Learner, state: TrainState, folder: Path, keep: int) -> Path:
    """Write a checkpoint into the run folder, then remove all but the newest `keep` and the best.

    All processes must call it; after it, the checkpoint exists, or all processes have failed.
    """
    is_main = learner.world.is_main
    path = _path(folder, state.step)
    suffix = learner.world.broadcast(None if _is_whole(path, is_main) else secrets.token_hex(4))
    if suffix is None:
        return path  # the same step has the same state
    partial = path.with_name(f".{path.name}.{suffix}.partial")
    try:
        with _writing(path, learner.world):
            if is_main:
                partial.mkdir(parents=True)
        with _writing(path, learner.world):
            own = _write_tensors(learner, partial)
        checksums = dict(ChainMap(*learner.world.all_gather(own)))
        with _writing(path, learner.world):
            if is_main:
                write_atomic(partial / STATE, _state_json(learner, state, checksums))
                shutil.rmtree(path, ignore_errors=True)
                partial.rename(path)
                fsync_folder(path.parent)
                _prune(path.parent, keep, state.best_step)
    finally:
        if is_main:
            shutil.rmtree(partial, ignore_errors=True)
    return path


def _is_whole(path: Path, is_main: bool) -> bool:
    return is_main and path.exists() and _damage(path) is None


def restore(learner: Learner, folder: Path, warn: Callable[[str], None]) -> TrainState | None:
    """Load the newest intact checkpoint of a run folder into the learner; None if there is none."""
    world = learner.world
    for path in world.broadcast(newest_first(folder)):
        # Each process verifies some of the files.
        reports = world.all_gather(_damage(path, world.rank, world.size))
        if damage := next(filter(None, reports), None):
            warn(f"{path} is damaged ({damage}) and skipped.")
            continue
        content = _read(path)
        _load(learner, content["optimizers"], path)
        state = content["train_state"]
        return TrainState(**{**state, "position": DataCursor(**state["position"])})
    return None


def weights_at(folder: Path, step: int) -> dict[str, Tensor]:
    """Return the weights in the checkpoint of a step: the EMA, where there is one."""
    path = _path(folder, step)
    if damage := _damage(path):
        raise RunError(
            f"{path}: damaged ({damage}), and it has the weights that the run ends with; "
            f"`regard resume {folder} training.evaluation.select=last` takes the last weights."
        )
    stored = _stored(path)
    prefixes = ("model", "ema")  # only trained parameters have an EMA
    weights = {
        f"{prefix}.{name}": _empty(tensor)
        for prefix in prefixes
        for name, tensor in _under(stored, prefix).items()
        if prefix == "ema" or f"ema.{name}" not in stored
    }
    _read_into(weights, path, World())
    return {name: tensor for p in prefixes for name, tensor in _under(weights, p).items()}


def newest_first(folder: Path) -> list[Path]:
    """Return the checkpoints of a run folder, the newest first."""
    return _newest_first(folder / FOLDER)


def _newest_first(parent: Path) -> list[Path]:
    # By length first: step-1000000 is newer than step-999999.
    return sorted(parent.glob("step-*"), key=lambda p: (len(p.name), p.name), reverse=True)


def _path(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"step-{step:06d}"


@contextmanager
def _writing(path: Path, world: World) -> Iterator[None]:
    with world.fail_together():
        try:
            yield
        except (OSError, OutputError) as error:
            raise OutputError(
                f"{path}: the checkpoint cannot be written ({error}); free some space, then "
                f"resume from the last complete one with `regard resume {path.parent.parent}`."
            ) from None


def _write_tensors(learner: Learner, partial: Path) -> dict[str, str]:
    """Write the tensors of this process; return the checksum of each file, by name."""
    tensors = _weights(learner)
    for number, optimizer in enumerate(learner.optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{index}.{key}": value for key, value in state.items()}
    if learner.sharded:
        return _write_shards(tensors, partial, learner.world)
    if learner.expert_parallel:
        tensors = gather_to_main(tensors, learner.world)
    if not learner.world.is_main:
        return {}
    data = save_tensors({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    write_atomic(partial / TENSORS, data)
    return {TENSORS: hashlib.sha256(data).hexdigest()}


def _write_shards(tensors: Mapping[str, Tensor], partial: Path, world: World) -> dict[str, str]:
    writer = HuggingFaceStorageWriter(str(partial), save_distributed=True)
    try:
        save_shards(dict(tensors), storage_writer=writer, process_group=world.control)
    except CheckpointException as failed:  # raised in every process
        error, _ = next(iter(failed.failures.values()))
        raise OutputError(str(error)) from None
    files = partial.glob(f"shard-{world.rank + 1:05d}-*")
    return {file.name: _checksum(file) for file in files}


def _weights(learner: Learner) -> dict[str, Tensor]:
    model = dict(learner.model.named_parameters())
    own = [name for name in model if name not in learner.base_parameters]
    weights = {f"model.{name}": model[name].detach() for name in own}
    if learner.ema is not None:
        trained = [name for name, parameter in model.items() if parameter.requires_grad]
        values = zip(trained, learner.ema.values, strict=True)
        weights |= {f"ema.{name}": value for name, value in values}
    return weights


def _state_json(learner: Learner, state: TrainState, checksums: Mapping[str, str]) -> bytes:
    content = {
        "train_state": asdict(state),
        "optimizers": [_members(optimizer) for optimizer in learner.optimizers],
        "files": dict(checksums),
    }
    return json.dumps({**content, "sha256": _checksum_of(content)}, indent=1).encode()


def _checksum_of(content: Mapping[str, Any]) -> str:
    others = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _members(optimizer: torch.optim.Optimizer) -> list[list[int]]:
    """Return the indices of the weights in each parameter group."""
    return [group["params"] for group in optimizer.state_dict()["param_groups"]]


def _read(path: Path) -> dict[str, Any]:
    content = read_json(path / STATE, finite=False)
    validate_json(_State, content, str(path / STATE))
    return dict(content)


def _damage(path: Path, rank: int = 0, size: int = 1) -> str | None:
    """Return what is wrong with a checkpoint or None; rank r of n verifies every n-th file."""
    try:
        content = _read(path)
        if content["sha256"] != _checksum_of(content):
            return f"{STATE} does not match its checksum"
        for name, checksum in sorted(content["files"].items())[rank::size]:
            if _checksum(path / name) != checksum:
                return f"{name} does not match its checksum"
    except READ_ERRORS as error:
        return str(error)
    return None


@torch.no_grad()
def _load(learner: Learner, members: list[list[list[int]]], path: Path) -> None:
    stored, weights = _stored(path), _weights(learner)
    if {name: tensor.size for name, tensor in _under(stored, "model").items()} != {
        name: tensor.shape for name, tensor in _under(weights, "model").items()
    }:
        raise RunError(f"{path}: its weights do not fit the recipe's model.")
    # Learning rates and other settings are the recipe's, which may have been changed on purpose.
    if members != [_members(optimizer) for optimizer in learner.optimizers]:
        raise RunError(f"{path}: the optimizer is not the one that it was saved from.")
    targets = {name: t for name, t in weights.items() if name in stored and not t.is_meta}
    states = [_optimizer_state(o, n, stored) for n, o in enumerate(learner.optimizers)]
    for number, state in enumerate(states):
        for index, tensors in state.items():
            targets |= {f"optimizer.{number}.{index}.{key}": t for key, t in tensors.items()}
    _read_into(targets, path, learner.world)
    for optimizer, state in zip(learner.optimizers, states, strict=True):
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    for name, value in _under(weights, "ema").items():
        if (
            f"ema.{name}" not in stored
        ):  # the EMA was added when resuming: it starts with the weights
            value.copy_(weights[f"model.{name}"])


def _optimizer_state(
    optimizer: torch.optim.Optimizer, number: int, stored: Mapping[str, TensorStorageMetadata]
) -> dict[int, dict[str, Tensor]]:
    """Return empty tensors for an optimizer's state, by weight index; sharded as the weight is."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under(stored, f"optimizer.{number}").items():
        index, _, key = name.partition(".")
        weight = weights[int(index)]
        if weight.is_meta:  # it is in another process, with its state
            continue
        empty = torch.zeros_like(weight) if weight.shape == tensor.size else _empty(tensor)
        state.setdefault(int(index), {})[key] = empty
    return state


def _empty(stored: TensorStorageMetadata) -> Tensor:
    return torch.zeros(stored.size, dtype=stored.properties.dtype)


def _stored(path: Path) -> dict[str, TensorStorageMetadata]:
    """Return sizes and types of the tensors in a checkpoint, in whatever files they are."""
    metadata = HuggingFaceStorageReader(str(path)).read_metadata().state_dict_metadata
    return {name: t for name, t in metadata.items() if isinstance(t, TensorStorageMetadata)}


def _read_into(tensors: dict[str, Tensor], path: Path, world: World) -> None:
    """Read every tensor from the checkpoint, in place, by its name."""
    reader = HuggingFaceStorageReader(str(path))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        single = world.size == 1
        try:
            load_shards(tensors, storage_reader=reader, process_group=world.control, no_dist=single)
        except CheckpointException as failed:  # raised in every process
            error, _ = next(iter(failed.failures.values()))
            raise RunError(
                f"{path}: cannot be read ({error}); copy it back or remove it."
            ) from None


def _under(tensors: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the tensors whose names begin with a prefix, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}


def _prune(parent: Path, keep: int, best_step: int) -> None:
    best = f"step-{best_step:06d}"
    for path in _outdated(parent, keep):
        if path.name != best:
            shutil.rmtree(path, ignore_errors=True)


def _outdated(parent: Path, keep: int) -> Iterator[Path]:
    yield from _newest_first(parent)[keep:]
    yield from parent.glob(".step-*.partial")
