"""The training loop: update, evaluate, save; the same for every task and model.

It yields events, which its caller writes and shows. Decisions that end training depend only on
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

MAX_SKIPPED_IN_A_ROW = 5  # updates without a finite loss; then the weights are not recoverable


def fit(
    learner: Learner,
    task: BoundTask,
    state: TrainState,
    folder: Path,
    interruption: Interruption,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Event]:
    """Train from `state` on until the steps or the budget are used up, or training ends early.

    `state` is updated in place. `clock` returns seconds.
    """
    spec = learner.spec
    start = clock() - state.elapsed_seconds
    batches = task.batches(state.position)
    while (stop := stop_reason(spec, state)) is None:
        chunk = list(islice(batches, spec.grad_accumulation))
        update = learner.update(
            [batch for batch, _ in chunk],
            state.step + 1,
            spec.progress(state.step, state.elapsed_seconds),
            interruption.requested,
            clock() - start,
            state.position.epoch,
        )
        state.step += 1
        state.position = chunk[-1][1]
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
            update.aux_loss,
            update.counts,
        )
        if state.step % spec.evaluation.every == 0 or progress >= 1:
            begin = clock()
            scores = _evaluate(learner, task)
            best = _count_evaluation(state, task.metric, scores[task.metric])
            evaluated = Evaluated(state.step, scores, best, begin - start, clock() - begin)
            yield evaluated
            # The best weights are read from a checkpoint, so there must be one.
            if evaluated.best:
                yield Saved(state.step, _save(learner, state, folder))
        stop = stop_reason(spec, state)
        # Not after a skipped update: a run that has to go back must get to before it.
        due = state.step % spec.checkpoint_every == 0 and update.applied
        if due or stop or update.stop_requested:
            yield Saved(state.step, _save(learner, state, folder))
        if update.stop_requested and not stop:
            yield Ended("interrupted", False)
            return
    yield Ended(stop.reason, True)


class StopReason(NamedTuple):
    """The reason why training ends, and the key of `training` to raise in order to continue."""

    reason: str
    key: str


def stop_reason(spec: TrainingSpec, state: TrainState) -> StopReason | None:
    """Return why training ends in this state; None if it continues."""
    patience = spec.evaluation.patience
    if patience is not None and state.evals_since_best >= patience:
        reason = f"no better score in {state.evals_since_best} evaluations"
        return StopReason(reason, "evaluation.patience")
    if spec.progress(state.step, state.elapsed_seconds) < 1:
        return None
    if spec.steps is not None:
        return StopReason(f"all {spec.steps:,} steps are done", "steps")
    return StopReason(f"the budget of {spec.budget:,.0f} seconds is used up", "budget")


def _save(learner: Learner, state: TrainState, folder: Path) -> Path:
    return checkpoint.save(learner, state, folder, learner.spec.keep_checkpoints)


def _evaluate(learner: Learner, task: BoundTask) -> dict[str, float]:
    with learner.for_evaluation() as model:
        # The same in every process except for rounding: the main one decides.
        return learner.world.broadcast(task.evaluate(model, learner.world))


def _count_evaluation(state: TrainState, metric: str, score: float) -> bool:
    """Return whether a score is the best so far, and record it in the state."""
    better = metric_named(metric).is_better(score, state.best)
    if better:
        state.best, state.best_step, state.evals_since_best = score, state.step, 0
    else:
        state.evals_since_best += 1
    return better


def _count_skipped(state: TrainState, applied: bool, folder: Path) -> None:
    if applied:
        state.skipped_in_a_row = 0
        return
    state.skipped += 1
    state.skipped_in_a_row += 1
    if state.skipped_in_a_row >= MAX_SKIPPED_IN_A_ROW:
        raise TrainingError(
            f"the loss was not finite {MAX_SKIPPED_IN_A_ROW} times in a row, up to step "
            f"{state.step}; the last checkpoint is from before: continue from it with a lower "
            f"rate, `regard resume {folder} training.optimizer.learning_rate=…`."
        )
