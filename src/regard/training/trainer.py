"""From a recipe to a run folder: prepare, build, fit, judge, write; and going on where it stopped.

recipe.yaml, ledger.json, training.json     from the beginning: enough to go on
metrics.jsonl, tensorboard/, checkpoints/   as training goes
model.json and all that it vouches for      at the end
"""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard import hardware, run_folder
from regard.atomic import write_all_atomic
from regard.config import plain, write_yaml
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.tokenizer import SPECIAL
from regard.errors import ConfigError, Interrupted, OutputError, RunError
from regard.models.base import parameter_count, trainable_count
from regard.training import checkpoint
from regard.training.checkpoint import TrainState
from regard.training.distributed.world import World, world
from regard.training.events import Ended, Event, Step
from regard.training.init.config import InitSpec
from regard.training.init.from_run import (
    InitReport,
    adapter_metadata,
    initial_model,
    load_trained,
    trained_weights,
)
from regard.training.init.word_vectors import load_pretrained_embeddings
from regard.training.learner import Learner
from regard.training.loop import fit, stop_reason
from regard.training.recipe import Recipe, read_recipe
from regard.training.reporting import metrics
from regard.training.reporting.card import card
from regard.training.reporting.curves import curves
from regard.training.reporting.progress import Reporter, silent
from regard.training.signals import catch_interrupts
from regard.training.tasks.base import BoundTask

RECIPE, LEDGER, BEGINNING = "recipe.yaml", "ledger.json", "training.json"
INIT_REPORT = "init_report"  # what became of the weights of init
HISTORY = "history"  # folder of what a step callback records
MAX_UNKNOWN = 0.05  # of the training tokens


# Called with the step and what `regard.load` would give, as often as the recipe's `look` says
StepCallback = Callable[[int, Any], None]


def train(
    recipe: Recipe,
    folder: Path | str,
    report: Reporter = silent,
    fresh: bool = False,
    callback: StepCallback | None = None,
) -> Any:
    """Train what the recipe says and write the run folder; gives what `regard.load` would."""
    folder = Path(folder)
    with world() as where:
        with where.fail_together():
            if where.is_main:
                _refuse_to_overwrite(folder, fresh, recipe.init)
        report = report if where.is_main else silent
        return _train(recipe, folder, where, report, callback, resuming=False)


def resume(
    folder: Path | str,
    changes: Sequence[str] = (),
    report: Reporter = silent,
    callback: StepCallback | None = None,
) -> Any:
    """Go on from the last whole checkpoint; `changes` are overrides of the recipe."""
    folder = Path(folder)
    with world() as where:
        with where.fail_together():
            recipe = read_run_recipe(folder, changes)
        report = report if where.is_main else silent
        return _train(recipe, folder, where, report, callback, resuming=True)


def read_run_recipe(folder: Path, changes: Sequence[str]) -> Recipe:
    for name in (RECIPE, BEGINNING):
        if not (folder / name).is_file():
            raise RunError(
                f"{folder}: there is no {name} in it, so there is nothing to go on with."
            )
    for change in changes:
        if re.match(r"(init|adapter)\b", change):
            raise ConfigError(
                f"{change}: what a run began with cannot be changed while it goes on; begin anew "
                f"with `regard train … --overwrite`."
            )
    return read_recipe(folder / RECIPE, changes)


def _refuse_to_overwrite(folder: Path, fresh: bool, init: InitSpec | None) -> None:
    if init is not None and init.run.resolve() == folder.resolve():
        raise OutputError(f"{folder}: is what this run begins with; choose another folder.")
    if run_folder.exists(folder) and not fresh:
        raise OutputError(f"{folder}: a trained model is there; --overwrite replaces it.")
    if checkpoint.newest_first(folder) and not fresh:
        raise OutputError(
            f"{folder}: an unfinished run is there; `regard resume {folder}` goes on with it, "
            f"--overwrite begins anew."
        )
    run_folder.check_writable(folder)


def _train(
    recipe: Recipe,
    folder: Path,
    where: World,
    report: Reporter,
    callback: StepCallback | None,
    resuming: bool,
) -> Any:
    hardware.keep_freed_memory()
    prepared = prepare_data(recipe, where, report)
    task = recipe.task.bind(recipe, prepared)
    learner, init_report = build_learner(recipe, prepared, task, where, report, resuming)
    state = TrainState()
    if resuming:
        init_report = _begun(folder).get(INIT_REPORT)
        state = _restored(learner, recipe, folder, prepared, report)
    with where.fail_together():
        if where.is_main and not resuming:
            _clear(folder)
        if where.is_main:
            _begin(recipe, folder, prepared, init_report)
    look = _looking(recipe, learner, task, callback)
    ended = _fit(learner, task, state, folder, report, look)
    if not ended.finished:
        raise Interrupted(f"stopped at step {state.step:,}, saved: `regard resume {folder}`.")
    with where.fail_together():
        if not where.is_main:
            return None
        return _finish(recipe, learner, task, prepared, state, folder, report)


def prepare_data(recipe: Recipe, where: World, report: Reporter) -> Prepared:
    _refuse_what_cannot_be_built(recipe)
    with where.main_first(), report.counting("records") as progress:
        prepared = prepare(
            recipe.data,
            recipe.tokenizer,
            recipe.model.max_length,
            report.say,
            progress,
            recipe.task.special_tokens,
            recipe.task.length_limits(recipe.model),
        )
    report.console.print(prepared.ledger.table())
    report.say(
        f"{sum(prepared.train.tokens):,} training tokens{', prepared before' * prepared.reused}; "
        f"vocabulary of {len(prepared.tokenizer):,} pieces; {prepared.unknown:.2%} of the tokens "
        f"unknown or spelt in bytes."
    )
    if prepared.unknown > MAX_UNKNOWN:
        report.say(
            f"[bold red]Alarm:[/bold red] the tokenizer does not know {prepared.unknown:.1%} of "
            f"this text: is it the right one, and trained on such text?"
        )
    return prepared


def _refuse_what_cannot_be_built(recipe: Recipe) -> None:
    """Parts that do not go together are told before hours of preparing, not after."""
    with torch.device("meta"):
        recipe.model.for_capability(recipe.task.requires).build(vocabulary=len(SPECIAL))


def build_learner(
    recipe: Recipe,
    prepared: Prepared,
    task: BoundTask,
    where: World,
    report: Reporter,
    resuming: bool = False,
) -> tuple[Learner, dict[str, Any] | None]:
    """The model and what moves it; and, in plain words, what became of the weights of init."""
    torch.manual_seed(recipe.training.seed)
    initial = initial_model(recipe, prepared, task, resuming)
    model = initial.model
    if initial.report is not None and not resuming:
        report.console.print(initial.report.table())
    if recipe.pretrained_embeddings is not None:
        if recipe.pretrained_embeddings.frozen and recipe.training.fsdp:
            raise ConfigError(
                "pretrained_embeddings.frozen: rows of sharded weights cannot be frozen; leave out "
                "training.fsdp, or train the vectors."
            )
        load_pretrained_embeddings(
            model, recipe.pretrained_embeddings, prepared.tokenizer, report.say
        )
    learner = Learner(
        model.to(where.device), task.loss, recipe.training, where, initial.base_parameters
    )
    total, trained = parameter_count(model), trainable_count(model)
    some = f", of which {trained:,} ({trained / total:.1%}) are trained" if trained < total else ""
    report.say(f"{total / 1e6:.1f} M parameters on {where.device}{some}.")
    return learner, None if initial.report is None else initial.report.plain()


def _restored(
    learner: Learner, recipe: Recipe, folder: Path, prepared: Prepared, report: Reporter
) -> TrainState:
    if _begun(folder)["prepared"] != prepared.folder.name:
        raise RunError(
            f"{folder}: its data or their preparation have changed since it began, so it cannot go "
            f"on exactly; bring them back, or begin anew with `regard train … --overwrite`."
        )
    state = checkpoint.restore(learner, folder, report.say) or TrainState()
    report.say(f"Going on from step {state.step:,}.")
    over = stop_reason(recipe.training, state)
    # A model of an earlier step is there where a run that was made longer was cut off at its end.
    if (
        over
        and run_folder.exists(folder)
        and run_folder.read(folder).details["training"] == asdict(state)
    ):
        raise RunError(
            f"{folder}: finished at step {state.step:,} ({over.reason}); to train longer, "
            f"`regard resume {folder} training.{over.key}=…`."
        )
    return state


def _begun(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / BEGINNING).read_text(encoding="utf-8")))


def _clear(folder: Path) -> None:
    """What an earlier run left, once everything is ready to replace it."""
    run_folder.ensure_writable(folder)
    for name in (metrics.NAME, run_folder.MANIFEST):
        (folder / name).unlink(missing_ok=True)
    for old in (checkpoint.FOLDER, "tensorboard", HISTORY):
        shutil.rmtree(folder / old, ignore_errors=True)


def _begin(
    recipe: Recipe, folder: Path, prepared: Prepared, init_report: dict[str, Any] | None
) -> None:
    beginning = {"prepared": prepared.folder.name, INIT_REPORT: init_report}
    write_all_atomic(
        folder,
        {
            LEDGER: prepared.ledger.to_json().encode(),
            BEGINNING: json.dumps(beginning).encode(),
            RECIPE: write_yaml(recipe).encode(),  # last: with it, the run can be resumed
        },
    )


def _looking(
    recipe: Recipe, learner: Learner, task: BoundTask, callback: StepCallback | None
) -> Callable[[Event], None]:
    """What lets the onlooker see the model when it is time."""

    def look(event: Event) -> None:
        if callback is None or recipe.attention_history is None or not isinstance(event, Step):
            return
        if event.step == 1 or event.step % recipe.attention_history.every == 0:
            with learner.for_evaluation() as model:  # all processes: weights may be in parts
                if learner.world.is_main:
                    callback(event.step, task.predictor(model))

    return look


def _fit(
    learner: Learner,
    task: BoundTask,
    state: TrainState,
    folder: Path,
    report: Reporter,
    look: Callable[[Event], None],
) -> Ended:
    peak = hardware.matrix_peak(learner.world.device)

    def utilisation(rate: float) -> float | None:
        return learner.flops_per_token * rate / peak if learner.flops_per_token else None

    with (
        catch_interrupts() as interruption,
        metrics.metrics_writer(folder if learner.world.is_main else None, state.step) as keep,
        report.training(utilisation) as show,
    ):
        for event in fit(learner, task, state, folder, interruption):
            keep(event)
            show(event)
            look(event)
    assert isinstance(event, Ended)
    report.say(f"Step {state.step:,}: {event.reason}.")
    return event


def _finish(
    recipe: Recipe,
    learner: Learner,
    task: BoundTask,
    prepared: Prepared,
    state: TrainState,
    folder: Path,
    report: Reporter,
) -> Any:
    """Judge the best weights, or the last, and write the run folder."""
    initial = initial_model(recipe, prepared, task, resuming=True)
    load_trained(initial, _chosen(learner, state, folder), str(folder / checkpoint.FOLDER))
    model = initial.model.to(learner.world.device).eval()
    finished = task.final_evaluation(model, report)
    parameters = parameter_count(model)
    events = metrics.read(folder)
    init_report = _begun(folder).get(INIT_REPORT)
    details = {
        "parameters": parameters,
        "trained": trainable_count(learner.model),
        "tokenizer": prepared.tokenizer.fingerprint,
        **prepared.tokenizer.renamed,
        "training": asdict(state),
        **({INIT_REPORT: init_report} if init_report else {}),
        **adapter_metadata(recipe, folder),
        **finished.details,
    }
    run = run_folder.Run(
        task=recipe.task.kind(),
        model=plain(task.model()),
        vocabulary=len(prepared.tokenizer),
        details=details,
        weights=trained_weights(initial),
        tokenizer=prepared.tokenizer.to_json(),
        extra_files=finished.extra_files,
        documents={
            "README.md": card(
                recipe,
                finished,
                prepared.ledger,
                state,
                parameters,
                metrics.counted(events),
                InitReport.from_plain(init_report) if init_report else None,
            ),
            **{f"{name}.svg": drawn for name, drawn in curves(events).items()},
            **finished.documents,
        },
    )
    run_folder.write(run, folder)
    return finished.predictor


def _chosen(learner: Learner, state: TrainState, folder: Path) -> dict[str, Tensor]:
    """The weights that the run ends with, averaged where that was asked for."""
    best = learner.spec.evaluation.select == "best"
    step = state.best_step if best and state.best_step else state.step
    return checkpoint.weights_at(folder, step)
