"""The training loop: update, look at the dev data, save; the same for every job and model.

It yields what happens, and whoever iterates reports it. Decisions that end training are taken from
numbers that all processes share, so that all of them end at the same step.
"""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.errors import TrainingError
from regard.evaluation.base import metric_named
from regard.training import checkpoint
from regard.training.checkpoint import TrainState
from regard.training.config import TrainingSpec
from regard.training.events import Ended, Evaluated, Event, Saved, Step
from regard.training.learner import Learner
from regard.training.signals import Interruption
from regard.training.tasks.base import BoundTask

PATIENCE_WITH_NAN = 5  # updates in a row without a finite loss; then the weights are beyond saving


def fit(
    learner: Learner,
    task: BoundTask,
    state: TrainState,
    folder: Path,
    interruption: Interruption,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Event]:
    """Train from where it stands until the steps or the budget are used up, or something ends it.

    `standing` is kept up to date; the weights are the learner's.
    """
    spec = learner.spec
    began = clock() - state.elapsed_seconds
    batches = task.batches(state.position)
    while (over := stop_reason(spec, state)) is None:
        drawn = list(islice(batches, spec.grad_accumulation))
        update = learner.update(
            [batch for batch, _ in drawn],
            state.step + 1,
            spec.progress(state.step, state.elapsed_seconds),
            interruption.requested,
            clock() - began,
            state.position.epoch,
        )
        state.step += 1
        state.position = drawn[-1][1]
        state.elapsed_seconds = update.seconds
        state.target_tokens += update.tokens
        _count_skipped(state, update.applied, folder)
        progress = spec.progress(state.step, state.elapsed_seconds)
        yield Step(
            state.step,
            update.loss,
            update.tokens,
            update.grad_norm,
            update.seconds,
            progress,
            update.applied,
            update.aside,
            update.counts,
        )
        if state.step % spec.evaluation.every == 0 or progress >= 1:
            evaluated = _evaluate(learner, task, state, clock() - began)
            yield evaluated
            # The best weights are those of a checkpoint, so there must be one.
            if evaluated.best:
                yield Saved(state.step, _save(learner, state, folder))
        over = stop_reason(spec, state)
        # Not among updates that were skipped: who has to go back shall get to before them.
        due = state.step % spec.checkpoint_every == 0 and update.applied
        if due or over or update.stop_requested:
            yield Saved(state.step, _save(learner, state, folder))
        if update.stop_requested and not over:
            yield Ended("interrupted", False)
            return
    yield Ended(over.reason, True)


class StopReason(NamedTuple):
    reason: str
    key: str  # of the training section: what to raise to go on


def stop_reason(spec: TrainingSpec, state: TrainState) -> StopReason | None:
    """Why training ends where it stands; None if it goes on."""
    patience = spec.evaluation.patience
    if patience is not None and state.evals_since_best >= patience:
        looks = f"no better score in {state.evals_since_best} looks at the dev data"
        return StopReason(looks, "evaluation.patience")
    if spec.progress(state.step, state.elapsed_seconds) < 1:
        return None
    if spec.steps is not None:
        return StopReason(f"all {spec.steps:,} steps are done", "steps")
    return StopReason(f"the budget of {spec.budget:,.0f} seconds is used up", "budget")


def _save(learner: Learner, state: TrainState, folder: Path) -> Path:
    return checkpoint.save(learner, state, folder, learner.spec.keep_checkpoints)


def _evaluate(learner: Learner, task: BoundTask, state: TrainState, seconds: float) -> Evaluated:
    with learner.for_evaluation() as model:
        # The same in every process, but for what rounding may do: the leading one decides.
        scores = learner.world.broadcast(task.evaluate(model, learner.world))
    score = scores[task.metric]
    better = metric_named(task.metric).is_better(score, state.best)
    if better:
        state.best, state.best_step, state.evals_since_best = score, state.step, 0
    else:
        state.evals_since_best += 1
    return Evaluated(state.step, scores, better, seconds)


def _count_skipped(state: TrainState, applied: bool, folder: Path) -> None:
    if applied:
        state.skipped_in_a_row = 0
        return
    state.skipped += 1
    state.skipped_in_a_row += 1
    if state.skipped_in_a_row >= PATIENCE_WITH_NAN:
        raise TrainingError(
            f"the loss was not finite {PATIENCE_WITH_NAN} times in a row, up to step "
            f"{state.step}; the last checkpoint is from before: go on from it with a lower "
            f"rate, `regard resume {folder} training.optimizer.learning_rate=…`."
        )
