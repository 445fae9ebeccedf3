"""Checkpoints: bit-identical restoring, damage, retention and refusals."""

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.data.sampling.sampler import DataCursor
from regard.errors import OutputError, RunError
from regard.training import checkpoint
from regard.training.checkpoint import STATE as STATE_FILE
from regard.training.checkpoint import TENSORS, TrainState, newest_first, restore, save
from regard.training.distributed.world import World
from regard.training.learner import Learner

MakeLearner = Callable[..., Learner]
STATE = TrainState(
    step=3,
    position=DataCursor(1, 2, 3),
    elapsed_seconds=0.1 + 0.2,
    target_tokens=12_345,
    skipped=2,
    skipped_in_a_row=1,
    best=1 / 3,
    best_step=2,
    evals_since_best=4,
)


@pytest.fixture(params=["adamw", "muon"])
def learner(request: pytest.FixtureRequest, make_learner: MakeLearner, toy: Any) -> Learner:
    """A learner after three updates."""
    made = make_learner(optimizer=request.param, ema_decay=0.9)
    for step in (1, 2, 3):
        made.update([toy().batch(step)], step, 0.0)
    return made


def state_tensors(learner: Learner) -> dict[str, Tensor]:
    """Return all tensors that the next update depends on."""
    tensors = {f"weight {name}": value for name, value in learner.model.named_parameters()}
    if learner.ema is not None:
        tensors |= {f"average {n}": value for n, value in enumerate(learner.ema.values)}
    for n, optimizer in enumerate(learner.optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer {n} {index} {key}": value for key, value in state.items()}
    return {name: value.detach().clone() for name, value in tensors.items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def same_recipe(learner: Learner, make_learner: MakeLearner, **settings: Any) -> Learner:
    """Make a learner of the same recipe with other weights."""
    kind = learner.spec.optimizer.kind()
    return make_learner(**{"optimizer": kind, "ema_decay": 0.9, "seed": 7, **settings})


def test_restore_is_bit_identical(
    learner: Learner, make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    checkpoint_folder = save(learner, STATE, tmp_path, keep=2)
    assert checkpoint_folder == tmp_path / "checkpoints" / "step-000003"
    other = same_recipe(learner, make_learner, seed=1)
    other.update([toy().batch(9)], 9, 0.0)
    assert not equal(state_tensors(other), state_tensors(learner))
    warnings: list[str] = []
    assert restore(other, tmp_path, warnings.append) == STATE
    assert warnings == []
    assert equal(state_tensors(other), state_tensors(learner))
    for updated in (learner, other):
        updated.update([toy().batch(4)], 4, 0.5)
    assert equal(state_tensors(other), state_tensors(learner))


def test_restore_without_a_checkpoint_returns_none(
    make_learner: MakeLearner, tmp_path: Path
) -> None:
    assert restore(make_learner(), tmp_path, pytest.fail) is None


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(bytes(data))


def truncate(checkpoint_folder: Path) -> None:
    data = (checkpoint_folder / TENSORS).read_bytes()
    (checkpoint_folder / TENSORS).write_bytes(data[: len(data) // 2])


def empty(checkpoint_folder: Path) -> None:
    for file in checkpoint_folder.iterdir():
        file.unlink()


def remove_a_field(checkpoint_folder: Path) -> None:
    content = json.loads((checkpoint_folder / STATE_FILE).read_text())
    del content["train_state"]["target_tokens"]
    (checkpoint_folder / STATE_FILE).write_text(json.dumps(content))


def change_a_number(checkpoint_folder: Path) -> None:
    text = (checkpoint_folder / STATE_FILE).read_text()
    (checkpoint_folder / STATE_FILE).write_text(
        text.replace('"target_tokens": 12345', '"target_tokens": 12344')
    )


DAMAGE: dict[str, Callable[[Path], object]] = {
    "truncated": truncate,
    "empty": empty,
    "a missing field": remove_a_field,
    "a changed number": change_a_number,
    "a bit of a weight": lambda checkpoint_folder: flip(checkpoint_folder / TENSORS, -1),
    "a bit of the header": lambda checkpoint_folder: flip(checkpoint_folder / TENSORS, 3),
    "a bit of the state": lambda checkpoint_folder: flip(checkpoint_folder / STATE_FILE, 0),
    "no state": lambda checkpoint_folder: (checkpoint_folder / STATE_FILE).unlink(),
    "no tensors": lambda checkpoint_folder: (checkpoint_folder / TENSORS).unlink(),
    "an empty state": lambda checkpoint_folder: (checkpoint_folder / STATE_FILE).write_text(""),
    "a list as state": lambda checkpoint_folder: (checkpoint_folder / STATE_FILE).write_text("[]"),
    "a state without a checksum": lambda checkpoint_folder: (
        checkpoint_folder / STATE_FILE
    ).write_text("{}"),
    "a state that is not text": lambda checkpoint_folder: (
        checkpoint_folder / STATE_FILE
    ).write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_restored(
    make_learner: MakeLearner, toy: Any, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    learner = make_learner()
    learner.update([toy().batch(1)], 1, 0.0)
    save(learner, STATE, tmp_path, keep=5)
    expected = state_tensors(learner)
    learner.update([toy().batch(2)], 2, 0.0)
    damage(save(learner, replace(STATE, step=4), tmp_path, keep=5))
    warnings: list[str] = []
    other = make_learner(seed=7)
    assert restore(other, tmp_path, warnings.append) == STATE
    assert equal(state_tensors(other), expected)
    (sentence,) = warnings
    assert "step-000004" in sentence
    assert "damaged" in sentence
    assert "skipped" in sentence


def test_a_partial_checkpoint_is_ignored_and_removed(
    make_learner: MakeLearner, tmp_path: Path
) -> None:
    partial = tmp_path / "checkpoints" / ".step-000009.partial"
    partial.mkdir(parents=True)
    (partial / TENSORS).write_bytes(b"half")
    assert newest_first(tmp_path) == []
    save(make_learner(), STATE, tmp_path, keep=2)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000003"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_the_last_and_the_best_checkpoints_are_kept(
    make_learner: MakeLearner, tmp_path: Path
) -> None:
    learner = make_learner()
    for step in (5, 10, 15, 20):
        best = min(step, 10)
        save(learner, replace(STATE, step=step, best_step=best), tmp_path, keep=2)
    assert names(tmp_path) == ["step-000010", "step-000015", "step-000020"]
    save(learner, replace(STATE, step=25, best_step=25), tmp_path, keep=2)
    assert names(tmp_path) == ["step-000020", "step-000025"]
    save(learner, replace(STATE, step=30, best_step=25), tmp_path, keep=1)
    assert names(tmp_path) == ["step-000025", "step-000030"]


def test_checkpoints_are_ordered_by_step_beyond_six_digits(
    make_learner: MakeLearner, tmp_path: Path
) -> None:
    for step in (999_998, 999_999, 1_000_000):
        save(make_learner(), replace(STATE, step=step, best_step=0), tmp_path, keep=2)
    assert [path.name for path in newest_first(tmp_path)] == ["step-1000000", "step-999999"]
    restored = restore(make_learner(), tmp_path, pytest.fail)
    assert restored is not None
    assert restored.step == 1_000_000


@pytest.mark.parametrize("at", [1, 2])
def test_a_full_disk_leaves_the_previous_checkpoint_and_no_partial_one(
    make_learner: MakeLearner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    learner = make_learner()
    before = save(learner, STATE, tmp_path, keep=1)
    data = (before / TENSORS).read_bytes()
    calls = 0

    def full(_: int) -> None:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("regard.atomic.os.fsync", full)
    with pytest.raises(OutputError, match=r"step-000004.*No space left.*regard resume"):
        save(learner, replace(STATE, step=4), tmp_path, keep=1)
    monkeypatch.undo()
    assert names(tmp_path) == ["step-000003"]
    assert (before / TENSORS).read_bytes() == data
    assert restore(learner, tmp_path, pytest.fail) == STATE


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(
    make_learner: MakeLearner, tmp_path: Path
) -> None:
    (tmp_path / "checkpoints").write_text("a file is in the way")
    with pytest.raises(OutputError, match="cannot be written"):
        save(make_learner(), STATE, tmp_path, keep=1)


def test_the_same_step_twice_is_one_checkpoint(make_learner: MakeLearner, tmp_path: Path) -> None:
    learner = make_learner()
    first = save(learner, STATE, tmp_path, keep=2)
    written = (first / TENSORS).stat().st_mtime_ns
    assert save(learner, STATE, tmp_path, keep=2) == first
    assert (first / TENSORS).stat().st_mtime_ns == written
    assert names(tmp_path) == ["step-000003"]


def test_a_damaged_checkpoint_is_written_again(make_learner: MakeLearner, tmp_path: Path) -> None:
    learner = make_learner()
    truncate(save(learner, STATE, tmp_path, keep=2))
    save(learner, STATE, tmp_path, keep=2)
    assert restore(learner, tmp_path, pytest.fail) == STATE


def test_weights_at_returns_ema_weights_where_there_are_any(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    averaged, plain = make_learner(ema_decay=0.9), make_learner()
    for number, learner in enumerate((averaged, plain)):
        learner.update([toy().batch(1)], 1, 0.0)
        save(learner, STATE, tmp_path / str(number), keep=2)
    assert averaged.ema is not None
    for name, value in zip(
        dict(averaged.model.named_parameters()), averaged.ema.values, strict=True
    ):
        assert torch.equal(checkpoint.weights_at(tmp_path / "0", 3)[name], value)
    for name, weight in plain.model.named_parameters():
        assert torch.equal(checkpoint.weights_at(tmp_path / "1", 3)[name], weight)


def test_learning_rates_come_from_the_current_recipe(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    """A lower learning rate takes effect on resume."""
    learner = make_learner(optimizer={"kind": "adamw", "learning_rate": 0.1})
    learner.update([toy().batch(1)], 1, 0.0)
    save(learner, STATE, tmp_path, keep=2)
    slower = make_learner(optimizer={"kind": "adamw", "learning_rate": 0.01})
    restore(slower, tmp_path, pytest.fail)
    slower.update([toy().batch(2)], 1000, 0.0)
    assert all(
        group["lr"] == pytest.approx(0.01) for o in slower.optimizers for group in o.param_groups
    )


def test_ema_enabled_on_resume_starts_from_the_weights(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    learner = make_learner()
    learner.update([toy().batch(1)], 1, 0.0)
    save(learner, STATE, tmp_path, keep=2)
    averaging = make_learner(ema_decay=0.9)
    restore(averaging, tmp_path, pytest.fail)
    assert averaging.ema is not None
    for value, weight in zip(averaging.ema.values, learner.model.parameters(), strict=True):
        assert torch.equal(value, weight)


def test_another_optimizer_is_refused(make_learner: MakeLearner, tmp_path: Path) -> None:
    save(make_learner(optimizer="muon"), STATE, tmp_path, keep=2)
    with pytest.raises(RunError, match=r"step-000003.*optimizer"):
        restore(make_learner(optimizer="adamw"), tmp_path, pytest.fail)


@pytest.mark.parametrize("wide", [3, 1])
def test_another_model_is_refused(
    make_learner: MakeLearner, toy: Any, tmp_path: Path, wide: int
) -> None:
    save(make_learner(), STATE, tmp_path, keep=2)
    spec, task = make_learner().spec, toy()
    for model in (
        nn.Sequential(nn.Linear(4, wide), nn.Tanh(), nn.Identity(), nn.Linear(wide, 4)),
        nn.Linear(4, 4),
    ):
        with pytest.raises(RunError, match="step-000003"):
            restore(Learner(model, task.loss, spec, World()), tmp_path, pytest.fail)
