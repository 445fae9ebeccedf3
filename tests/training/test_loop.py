"""The training loop: evaluations, checkpoints, stop reasons and interruptions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import TrainingError
from regard.training.checkpoint import TrainState, newest_first, restore
from regard.training.events import Ended, Evaluated, Event, Saved, Step
from regard.training.learner import Learner
from regard.training.loop import fit
from regard.training.signals import Interruption

MakeLearner = Callable[..., Learner]


def clock_advancing_by(seconds: float) -> Callable[[], float]:
    """Return a clock that advances at every call."""
    now = 1e6

    def clock() -> float:
        nonlocal now
        now += seconds
        return now

    return clock


def steps(events: list[Event]) -> list[int]:
    return [event.step for event in events if isinstance(event, Step)]


def saved(events: list[Event]) -> list[int]:
    return [event.step for event in events if isinstance(event, Saved)]


def evaluations(events: list[Event]) -> list[int]:
    return [event.step for event in events if isinstance(event, Evaluated)]


def run(
    learner: Learner, task: Any, folder: Path, state: TrainState | None = None, stop_after: int = 0
) -> list[Event]:
    interruption = Interruption()
    events: list[Event] = []
    for event in fit(
        learner, task, state or TrainState(), folder, interruption, clock_advancing_by(0.1)
    ):
        events.append(event)
        interruption.requested |= isinstance(event, Step) and event.step == stop_after
    return events


def test_steps_evaluations_and_checkpoints_happen_when_configured(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    learner = make_learner(steps=10, checkpoint_every=4, evaluation={"every": 3})
    state = TrainState()
    events = run(learner, toy(scores=[4, 3, 9, 8]), tmp_path, state)
    assert steps(events) == list(range(1, 11))
    assert evaluations(events) == [3, 6, 9, 10]
    # At the best evaluations, every four steps, and at the end.
    assert saved(events) == [3, 4, 6, 8, 10]
    assert events[-1] == Ended("all 10 steps are done", True)
    assert (state.step, state.position.batch, state.target_tokens) == (10, 10, 160)
    assert (state.best, state.best_step, state.evals_since_best) == (3, 6, 2)


def test_gradient_accumulation_takes_several_batches_a_step(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    state = TrainState()
    run(make_learner(steps=3, grad_accumulation=4), toy(), tmp_path, state)
    assert (state.position.batch, state.target_tokens) == (12, 12 * 16)


def test_a_time_budget_ends_training(make_learner: MakeLearner, toy: Any, tmp_path: Path) -> None:
    learner = make_learner(steps=None, budget="3s", schedule={"kind": "linear", "warmup": 0})
    state = TrainState()
    events = run(learner, toy(), tmp_path, state)
    made = [event for event in events if isinstance(event, Step)]
    assert events[-1] == Ended("the budget of 3 seconds is used up", True)
    assert 29 <= len(made) <= 31
    assert state.elapsed_seconds == pytest.approx(3, abs=0.15)
    assert [step.progress for step in made] == sorted(step.progress for step in made)
    assert made[-1].progress == 1
    assert evaluations(events) == [made[-1].step]


def test_time_before_an_interruption_counts_towards_the_budget(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    learner = make_learner(steps=None, budget="3s")
    assert len(
        steps(run(learner, toy(), tmp_path, TrainState(elapsed_seconds=2.0)))
    ) == pytest.approx(10, 1)


def test_early_stopping_ends_training(make_learner: MakeLearner, toy: Any, tmp_path: Path) -> None:
    settings = {"steps": 100, "evaluation": {"every": 2, "patience": 3}}
    task = toy(scores=[5, 4, 6, 3, 3, 8, 7, 1])
    state = TrainState()
    events = run(make_learner(**settings), task, tmp_path, state)
    assert events[-1] == Ended("no better score in 3 evaluations", True)
    assert evaluations(events) == [2, 4, 6, 8, 10, 12, 14]
    assert (state.step, state.best_step) == (14, 8)
    # The best checkpoint is kept, and the last.
    assert newest_first(tmp_path)[0].name == "step-000014"
    assert (tmp_path / "checkpoints" / "step-000008").is_dir()


def test_a_run_ended_by_early_stopping_does_not_continue(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    settings = {"steps": 100, "evaluation": {"every": 1, "patience": 2}}
    run(make_learner(**settings), toy(scores=[1, 2, 3]), tmp_path)
    again = make_learner(**settings)
    state = restore(again, tmp_path, pytest.fail)
    assert state is not None
    assert steps(run(again, toy(), tmp_path, state)) == []


def test_a_non_finite_score_is_never_the_best(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    state = TrainState()
    task = toy(scores=[float("nan"), 5.0, float("nan"), float("-inf")])
    run(make_learner(steps=4, evaluation={"every": 1}), task, tmp_path, state)
    assert (state.best, state.best_step, state.evals_since_best) == (5.0, 2, 2)


@pytest.mark.parametrize(("metric", "best"), [("loss", 1), ("accuracy", 3)])
def test_the_best_score_depends_on_the_direction_of_the_metric(
    make_learner: MakeLearner, toy: Any, tmp_path: Path, metric: str, best: int
) -> None:
    task, values = toy(), iter([0.1, 0.5, 0.9, 0.2])
    task.metric = metric
    task.evaluate = lambda *_: {metric: next(values)}
    state = TrainState()
    run(make_learner(steps=4, evaluation={"every": 1}), task, tmp_path, state)
    assert state.best_step == best


def test_skipped_updates_are_counted_and_reported(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    state = TrainState()
    events = run(make_learner(steps=12), toy(poisoned=[2, 3, 7]), tmp_path, state)
    assert [e.step for e in events if isinstance(e, Step) and not e.applied] == [2, 3, 7]
    assert (state.skipped, state.skipped_in_a_row, state.step) == (3, 0, 12)


def test_five_non_finite_losses_in_a_row_end_training_with_a_good_checkpoint(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    settings = {"steps": 20, "checkpoint_every": 4}
    learner = make_learner(**settings)
    with pytest.raises(
        TrainingError, match=r"not finite 5 times in a row, up to step 10.*learning_rate=…"
    ):
        run(learner, toy(poisoned=range(6, 20)), tmp_path)
    again = make_learner(**settings)
    state = restore(again, tmp_path, pytest.fail)
    assert state is not None
    assert (state.step, state.skipped_in_a_row) == (4, 0)
    assert all(parameter.isfinite().all() for parameter in again.model.parameters())
    assert run(again, toy(), tmp_path, state)[-1].finished


def losses(events: list[Event]) -> list[float]:
    return [event.loss for event in events if isinstance(event, Step)]


def weights(learner: Learner) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in learner.model.parameters()]


SETTINGS: list[dict[str, Any]] = [
    {"optimizer": "muon", "ema_decay": 0.9, "grad_accumulation": 2},
    {"optimizer": "adamw", "schedule": "cosine"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["muon", "adamw"])
@pytest.mark.parametrize("stops", [[1], [7, 9, 16]])
def test_interrupted_training_continues_bit_identically(
    make_learner: MakeLearner, toy: Any, tmp_path: Path, settings: dict[str, Any], stops: list[int]
) -> None:
    settings = {"steps": 20, "checkpoint_every": 100, "evaluation": {"every": 5}, **settings}
    uninterrupted, end = make_learner(**settings), TrainState()
    expected = losses(run(uninterrupted, toy(), tmp_path / "whole", end))
    resumed_losses: list[float] = []
    for stop in [*stops, 0]:
        learner = make_learner(**settings)
        state = restore(learner, tmp_path / "parts", pytest.fail) or TrainState()
        events = run(learner, toy(), tmp_path / "parts", state, stop)
        resumed_losses += losses(events)
        if stop:  # the request takes effect in the next step
            assert events[-1] == Ended("interrupted", False)
            assert state.step == stop + 1
    assert resumed_losses == expected
    assert all(map(torch.equal, weights(uninterrupted), weights(learner)))
    assert (state.step, state.position, state.best) == (20, end.position, end.best)


def test_an_interruption_in_the_last_step_finishes_training(
    make_learner: MakeLearner, toy: Any, tmp_path: Path
) -> None:
    events = run(make_learner(steps=5), toy(), tmp_path, stop_after=4)
    assert events[-1] == Ended("all 5 steps are done", True)
