"""The training loop: update, look at the dev data, save; the same for every job and model.

It yields what happens, and whoever iterates reports it. Decisions that end training are taken from
numbers that all processes share, so that all of them end at the same step.
"""

import math
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.errors import TrainingError
from regard.training import checkpoint
from regard.training.checkpoint import Standing
from regard.training.config import TrainingSpec
from regard.training.events import Ended, Event, Look, Saved, Step
from regard.training.learner import Learner
from regard.training.signals import Interruption
from regard.training.tasks.base import BoundTask

PATIENCE_WITH_NAN = 5  # updates in a row without a finite loss; then the weights are beyond saving
LOWER_IS_BETTER = {"loss", "perplexity"}


def fit(
    learner: Learner,
    task: BoundTask,
    standing: Standing,
    folder: Path,
    interruption: Interruption,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Event]:
    """Train from where it stands until the steps or the budget are used up, or something ends it.

    `standing` is kept up to date; the weights are the learner's.
    """
    spec = learner.spec
    began = clock() - standing.seconds
    batches = task.batches(standing.position)
    while (over := why_over(spec, standing)) is None:
        drawn = list(islice(batches, spec.grad_accumulation))
        update = learner.update(
            [batch for batch, _ in drawn],
            standing.step + 1,
            spec.progress(standing.step, standing.seconds),
            interruption.asked,
            clock() - began,
            standing.position.epoch,
        )
        standing.step += 1
        standing.position = drawn[-1][1]
        standing.seconds = update.seconds
        standing.tokens += update.tokens
        _count_skipped(standing, update.applied, folder)
        progress = spec.progress(standing.step, standing.seconds)
        yield Step(
            standing.step,
            update.loss,
            update.tokens,
            update.norm,
            update.seconds,
            progress,
            update.applied,
            update.aside,
            update.counts,
        )
        if standing.step % spec.evaluation.every == 0 or progress >= 1:
            look = _look(learner, task, standing, clock() - began)
            yield look
            # The best weights are those of a checkpoint, so there must be one.
            if look.best:
                yield Saved(standing.step, _save(learner, standing, folder))
        over = why_over(spec, standing)
        # Not among updates that were skipped: who has to go back shall get to before them.
        due = standing.step % spec.checkpoint_every == 0 and update.applied
        if due or over or update.asked_to_stop:
            yield Saved(standing.step, _save(learner, standing, folder))
        if update.asked_to_stop and not over:
            yield Ended("interrupted", False)
            return
    yield Ended(over.why, True)


class Over(NamedTuple):
    why: str
    key: str  # of the training section: what to raise to go on


def why_over(spec: TrainingSpec, standing: Standing) -> Over | None:
    """Why training ends where it stands; None if it goes on."""
    patience = spec.evaluation.patience
    if patience is not None and standing.stale >= patience:
        looks = f"no better score in {standing.stale} looks at the dev data"
        return Over(looks, "evaluation.patience")
    if spec.progress(standing.step, standing.seconds) < 1:
        return None
    if spec.steps is not None:
        return Over(f"all {spec.steps:,} steps are done", "steps")
    return Over(f"the budget of {spec.budget:,.0f} seconds is used up", "budget")


def _save(learner: Learner, standing: Standing, folder: Path) -> Path:
    return checkpoint.save(learner, standing, folder, learner.spec.keep_checkpoints)


def _look(learner: Learner, task: BoundTask, standing: Standing, seconds: float) -> Look:
    with learner.at_its_best() as model:
        # The same in every process, but for what rounding may do: the leading one decides.
        scores = learner.world.leaders(task.evaluate(model, learner.world))
    score = scores[task.metric]
    sign = -1 if task.metric in LOWER_IS_BETTER else 1
    better = math.isfinite(score) and (standing.best is None or sign * score > sign * standing.best)
    if better:
        standing.best, standing.best_step, standing.stale = score, standing.step, 0
    else:
        standing.stale += 1
    return Look(standing.step, scores, better, seconds)


def _count_skipped(standing: Standing, applied: bool, folder: Path) -> None:
    if applied:
        standing.skipped_in_a_row = 0
        return
    standing.skipped += 1
    standing.skipped_in_a_row += 1
    if standing.skipped_in_a_row >= PATIENCE_WITH_NAN:
        raise TrainingError(
            f"the loss was not finite {PATIENCE_WITH_NAN} times in a row, up to step "
            f"{standing.step}; the last checkpoint is from before: go on from it with a lower "
            f"rate, `regard resume {folder} training.optimizer.learning_rate=…`."
        )
