"""Checkpoints: nothing is lost on the way to the disk and back, and damage is seen."""

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
    """One that has learned for three steps."""
    made = make_learner(optimizer=request.param, ema_decay=0.9)
    for step in (1, 2, 3):
        made.update([toy().batch(step)], step, 0.0)
    return made


def everything(learner: Learner) -> dict[str, Tensor]:
    """All tensors that the next update depends on."""
    found = {f"weight {name}": value for name, value in learner.model.named_parameters()}
    if learner.ema is not None:
        found |= {f"average {n}": value for n, value in enumerate(learner.ema.values)}
    for n, optimizer in enumerate(learner.optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            found |= {f"optimizer {n} {index} {key}": value for key, value in state.items()}
    return {name: value.detach().clone() for name, value in found.items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def like(learner: Learner, make_learner: MakeLearner, **settings: Any) -> Learner:
    """Another one by the same recipe, with other weights."""
    kind = learner.spec.optimizer.kind()
    return make_learner(**{"optimizer": kind, "ema_decay": 0.9, "seed": 7, **settings})


def test_all_comes_back_bit_by_bit(
    learner: Learner, make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    place = save(learner, STATE, tmp_path, keep=2)
    assert place == tmp_path / "checkpoints" / "step-000003"
    other = like(learner, make_learner, seed=1)
    other.update([toy().batch(9)], 9, 0.0)
    assert not same(everything(other), everything(learner))
    said: list[str] = []
    assert restore(other, tmp_path, said.append) == STATE
    assert said == []
    assert same(everything(other), everything(learner))
    for each in (learner, other):
        each.update([toy().batch(4)], 4, 0.5)
    assert same(everything(other), everything(learner))


def test_a_fresh_learner_has_nothing_to_restore(make_learner: MakeLearner, tmp_path: Path) -> None:
    assert restore(make_learner(), tmp_path, pytest.fail) is None


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(bytes(data))


def truncate(place: Path) -> None:
    data = (place / TENSORS).read_bytes()
    (place / TENSORS).write_bytes(data[: len(data) // 2])


def empty(place: Path) -> None:
    for file in place.iterdir():
        file.unlink()


def forget_a_field(place: Path) -> None:
    content = json.loads((place / STATE_FILE).read_text())
    del content["train_state"]["target_tokens"]
    (place / STATE_FILE).write_text(json.dumps(content))


def miscount(place: Path) -> None:
    text = (place / STATE_FILE).read_text()
    (place / STATE_FILE).write_text(
        text.replace('"target_tokens": 12345', '"target_tokens": 12344')
    )


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": truncate,
    "empty": empty,
    "a field too few": forget_a_field,
    "another number": miscount,
    "a bit of a weight": lambda place: flip(place / TENSORS, -1),
    "a bit of the header": lambda place: flip(place / TENSORS, 3),
    "a bit of the numbers": lambda place: flip(place / STATE_FILE, 0),
    "no numbers": lambda place: (place / STATE_FILE).unlink(),
    "no tensors": lambda place: (place / TENSORS).unlink(),
    "nothing for numbers": lambda place: (place / STATE_FILE).write_text(""),
    "a list for numbers": lambda place: (place / STATE_FILE).write_text("[]"),
    "numbers without a checksum": lambda place: (place / STATE_FILE).write_text("{}"),
    "numbers that are no text": lambda place: (place / STATE_FILE).write_bytes(b"\xff\xfe"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_one_is_named_and_the_one_before_it_taken(
    make_learner: MakeLearner, toy: Any, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    learner = make_learner()
    learner.update([toy().batch(1)], 1, 0.0)
    save(learner, STATE, tmp_path, keep=5)
    wanted = everything(learner)
    learner.update([toy().batch(2)], 2, 0.0)
    damage(save(learner, replace(STATE, step=4), tmp_path, keep=5))
    said: list[str] = []
    other = make_learner(seed=7)
    assert restore(other, tmp_path, said.append) == STATE
    assert same(everything(other), wanted)
    (sentence,) = said
    assert "step-000004" in sentence
    assert "damaged" in sentence
    assert "skipped" in sentence


def test_what_a_killed_process_left_half_written_is_no_checkpoint(
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


def test_the_last_ones_and_the_best_are_kept(make_learner: MakeLearner, tmp_path: Path) -> None:
    learner = make_learner()
    for step in (5, 10, 15, 20):
        best = min(step, 10)
        save(learner, replace(STATE, step=step, best_step=best), tmp_path, keep=2)
    assert names(tmp_path) == ["step-000010", "step-000015", "step-000020"]
    save(learner, replace(STATE, step=25, best_step=25), tmp_path, keep=2)
    assert names(tmp_path) == ["step-000020", "step-000025"]
    save(learner, replace(STATE, step=30, best_step=25), tmp_path, keep=1)
    assert names(tmp_path) == ["step-000025", "step-000030"]


def test_the_millionth_step_comes_after_the_one_before_it(
    make_learner: MakeLearner, tmp_path: Path
) -> None:
    for step in (999_998, 999_999, 1_000_000):
        save(make_learner(), replace(STATE, step=step, best_step=0), tmp_path, keep=2)
    assert [path.name for path in newest_first(tmp_path)] == ["step-1000000", "step-999999"]
    restored = restore(make_learner(), tmp_path, pytest.fail)
    assert restored is not None
    assert restored.step == 1_000_000


@pytest.mark.parametrize("at", [1, 2])
def test_a_full_disk_leaves_the_one_before_and_no_rest(
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


def test_a_damaged_one_is_written_again(make_learner: MakeLearner, tmp_path: Path) -> None:
    learner = make_learner()
    truncate(save(learner, STATE, tmp_path, keep=2))
    save(learner, STATE, tmp_path, keep=2)
    assert restore(learner, tmp_path, pytest.fail) == STATE


def test_the_weights_to_judge_by_are_the_averaged_ones(
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


def test_rates_are_those_of_the_recipe_now(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    """Who goes on with a lower rate means it."""
    learner = make_learner(optimizer={"kind": "adamw", "learning_rate": 0.1})
    learner.update([toy().batch(1)], 1, 0.0)
    save(learner, STATE, tmp_path, keep=2)
    slower = make_learner(optimizer={"kind": "adamw", "learning_rate": 0.01})
    restore(slower, tmp_path, pytest.fail)
    slower.update([toy().batch(2)], 1000, 0.0)
    assert all(
        group["lr"] == pytest.approx(0.01) for o in slower.optimizers for group in o.param_groups
    )


def test_an_average_asked_for_later_begins_with_the_weights(
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
