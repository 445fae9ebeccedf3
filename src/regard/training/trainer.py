"""Train a recipe into a run folder: prepare the data, build, fit, evaluate, write; and resume."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.text import Text
from torch import Tensor

from regard import hardware, run_folder
from regard.config import plain
from regard.data.ledger import LostDataError
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.tokenizer import SPECIAL
from regard.data.warnings import data_warnings, label_counts, show_counts
from regard.errors import ConfigError, Interrupted, RunError
from regard.models.base import parameter_count, trainable_count
from regard.models.meta import on_meta
from regard.training import checkpoint, run_files, sizing
from regard.training.checkpoint import TrainState
from regard.training.distributed.world import World, distributed_world
from regard.training.events import Ended, Evaluated, Event, Step
from regard.training.init.from_run import initial_model, load_trained
from regard.training.init.word_vectors import load_pretrained_embeddings
from regard.training.learner import Learner
from regard.training.loop import fit, stop_reason
from regard.training.recipe import AttentionHistorySpec, Recipe
from regard.training.reporting import metrics
from regard.training.reporting.log_lines import duration
from regard.training.reporting.progress import Reporter, silent
from regard.training.signals import catch_interrupts
from regard.training.tasks.base import BoundTask

ADVICE_AT = 0.1  # progress after which the speed is known
MAX_UNKNOWN = 0.05  # fraction of the training tokens; more is reported as an alarm

# Called with the step and the predictor, as often as the recipe's `attention_history` says
StepCallback = Callable[[int, Any], None]
Recorder = Callable[[AttentionHistorySpec | None, Path], StepCallback | None]


def train(
    recipe: Recipe,
    folder: Path | str,
    report: Reporter = silent,
    overwrite: bool = False,
    callback: StepCallback | None = None,
) -> Any:
    """Train a recipe and write the run folder; return the predictor, as `regard.load` would.

    Raises OutputError where the folder holds a run already, unless `overwrite`, and Interrupted
    after Ctrl-C or SIGTERM, when a checkpoint has been written. With several processes, all but
    the main one return None.
    """
    folder = Path(folder)
    init = recipe.init.run if recipe.init else None
    with distributed_world() as world, _writing(folder, world):
        with world.fail_together():
            if world.is_main:
                run_folder.refuse_to_replace(folder, overwrite, init)
        report = report if world.is_main else silent
        return _train(recipe, folder, world, report, callback, resuming=False)


def resume(
    folder: Path | str,
    changes: Sequence[str] = (),
    report: Reporter = silent,
    recorder: Recorder = lambda _, __: None,
) -> Any:
    """Resume from the newest intact checkpoint; `changes` are overrides of the recipe."""
    folder = Path(folder)
    with distributed_world() as world, _writing(folder, world):
        with world.fail_together():
            report = report if world.is_main else silent
            recipe = run_files.read_run_recipe(folder, changes, report.say)
        callback = recorder(recipe.attention_history, folder)
        return _train(recipe, folder, world, report, callback, resuming=True)


@contextmanager
def _writing(folder: Path, world: World) -> Iterator[None]:
    """Let the main process hold the lock of the run folder; where it cannot, all processes end."""
    with ExitStack() as stack:
        with world.fail_together():
            if world.is_main:
                stack.enter_context(run_folder.writing(folder))
        yield


def _train(
    recipe: Recipe,
    folder: Path,
    world: World,
    report: Reporter,
    callback: StepCallback | None,
    resuming: bool,
) -> Any:
    hardware.keep_freed_memory()
    prepared = prepare_data(recipe, world, report)
    recipe = choose_size(recipe, prepared, report)
    task = recipe.task.bind(recipe, prepared)
    learner, init_report = build_learner(recipe, prepared, task, world, report, resuming)
    state = TrainState()
    if resuming:
        init_report = run_files.read_start(folder).get(run_files.INIT_REPORT)
        state = _restore(learner, recipe, folder, prepared, report)
    with world.fail_together():
        if world.is_main and not resuming:
            run_files.clear(folder)
        if world.is_main:
            run_files.write_start(recipe, folder, prepared, init_report)
    evaluations = _Evaluations()
    hooks = [_step_hook(recipe, learner, task, callback), evaluations.add]
    if not resuming:
        hooks.append(_advice_hook(recipe, task, prepared, state, report))
    ended = _fit(learner, task, state, folder, report, hooks)
    if not ended.finished:
        raise Interrupted(f"stopped at step {state.step:,}, saved: `regard resume {folder}`.")
    with world.fail_together():
        if not world.is_main:
            return None
        report.say(_announcement(task, prepared, evaluations.last))
        return _finish(recipe, learner, task, prepared, state, folder, report)


def prepare_data(recipe: Recipe, world: World, report: Reporter) -> Prepared:
    """Prepare the recipe's data, or find them prepared, and report what became of them."""
    _check_model_builds(recipe)
    with world.main_first():
        recipe.data.fetch(report)
    try:
        with world.main_first(), report.counting("records") as progress:
            prepared = prepare(
                recipe.data,
                recipe.tokenizer,
                recipe.model.max_length,
                report.say,
                progress,
                recipe.task.special_tokens,
                recipe.task.length_limits(recipe.model),
            )
    except LostDataError as error:
        report.console.print(error.ledger.table())
        raise
    report.console.print(prepared.ledger.table())
    report.say(
        f"{sum(prepared.train.tokens):,} training tokens{', prepared before' * prepared.reused}; "
        f"vocabulary of {len(prepared.tokenizer):,} pieces; {prepared.unknown_rate:.2%} of the "
        f"tokens unknown or spelled in bytes."
    )
    _warn(recipe, prepared, report)
    if prepared.unknown_rate > MAX_UNKNOWN:
        report.say(
            Text.assemble(
                ("Alarm:", "bold red"),
                f" the tokenizer does not know {prepared.unknown_rate:.1%} of this text; use one "
                f"that was trained on such text.",
            )
        )
    return prepared


def choose_size(recipe: Recipe, prepared: Prepared, report: Reporter) -> Recipe:
    """Return the recipe with a named size in place of `model.size: auto`, and report it."""
    if not sizing.has_auto_size(recipe):
        return recipe
    tokens = recipe.task.bind(recipe, prepared).tokens_per_epoch()
    chosen = sizing.with_chosen_size(recipe, len(prepared.tokenizer), tokens)
    training = recipe.training
    length = duration(training.budget) if training.budget else f"{training.steps:,} steps"
    report.say(
        f"model: {chosen.model.kind()} of size {plain(chosen.model)['size']}, chosen for the "
        f"data and {length}; model.size=… chooses another."
    )
    return chosen


def _warn(recipe: Recipe, prepared: Prepared, report: Reporter) -> None:
    """Report the counts of the labels, and what looks wrong in the data."""
    counts = label_counts(recipe.data, prepared)
    if counts:
        report.say(show_counts(counts))
    for warning in data_warnings(recipe.data, prepared, counts):
        report.say(Text.assemble(("Warning:", "bold yellow"), f" {warning}"))


def _check_model_builds(recipe: Recipe) -> None:
    """Refuse incompatible parts of a model before hours of preparing data, not after."""
    with on_meta():
        recipe.model.for_capability(recipe.task.requires).build(vocabulary=len(SPECIAL))


def build_learner(
    recipe: Recipe,
    prepared: Prepared,
    task: BoundTask,
    world: World,
    report: Reporter,
    resuming: bool = False,
) -> tuple[Learner, dict[str, Any] | None]:
    """Build the model and its learner; return them with the report on init, plain."""
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
        model.to(world.device), task.loss, recipe.training, world, initial.base_parameters
    )
    total, trained = parameter_count(model), trainable_count(model)
    some = f", of which {trained:,} ({trained / total:.1%}) are trained" if trained < total else ""
    products = " Products in bfloat16." * (learner.precision == torch.bfloat16)
    report.say(f"{total / 1e6:.1f} M parameters on {world.device}{some}.{products}")
    return learner, None if initial.report is None else initial.report.plain()


def _restore(
    learner: Learner, recipe: Recipe, folder: Path, prepared: Prepared, report: Reporter
) -> TrainState:
    """Load the newest checkpoint; refuse other data, and a run that is finished."""
    start = run_files.read_start(folder)
    if not prepared.is_same_data(start["prepared"], start.get("content")):
        raise RunError(
            f"{folder}: its data or their preparation have changed since it began, so it cannot be "
            f"resumed exactly; restore them, or start over with `regard train … --overwrite`."
        )
    state = checkpoint.restore(learner, folder, report.say) or TrainState()
    report.say(f"Resuming from step {state.step:,}.")
    stop = stop_reason(recipe.training, state)
    if stop and run_files.is_written(folder, state):
        raise RunError(
            f"{folder}: finished at step {state.step:,} ({stop.reason}); to train longer, "
            f"`regard resume {folder} training.{stop.key}=…`."
        )
    return state


def _step_hook(
    recipe: Recipe, learner: Learner, task: BoundTask, callback: StepCallback | None
) -> Callable[[Event], None]:
    """Return a function of events that calls the callback with the predictor when it is due."""

    def hook(event: Event) -> None:
        if callback is None or recipe.attention_history is None or not isinstance(event, Step):
            return
        if event.step == 1 or event.step % recipe.attention_history.every == 0:
            with learner.for_evaluation() as model:  # all processes: weights may be sharded
                if learner.world.is_main:
                    callback(event.step, task.predictor(model))

    return hook


def _advice_hook(
    recipe: Recipe, task: BoundTask, prepared: Prepared, state: TrainState, report: Reporter
) -> Callable[[Event], None]:
    """Return a function of events that says once if the budget gives too few passes."""
    is_given = False

    def hook(event: Event) -> None:
        nonlocal is_given
        if is_given or not isinstance(event, Step) or event.progress < ADVICE_AT:
            return
        is_given = True
        epochs = task.epochs(state.position) / event.progress
        steps = event.step / event.progress
        tokens, vocabulary = task.tokens_per_epoch(), len(prepared.tokenizer)
        if advice := sizing.advice(recipe, vocabulary, tokens, steps, epochs):
            report.say(advice)

    return hook


def _fit(
    learner: Learner,
    task: BoundTask,
    state: TrainState,
    folder: Path,
    report: Reporter,
    hooks: Sequence[Callable[[Event], None]],
) -> Ended:
    """Run the training loop; write and show its events."""
    peak = hardware.matrix_peak(learner.world.device, learner.precision)

    def utilization(rate: float) -> float | None:
        return learner.flops_per_token * rate / peak if learner.flops_per_token else None

    with (
        catch_interrupts() as interruption,
        metrics.metrics_writer(folder if learner.world.is_main else None, state.step) as write,
        report.training(utilization, task.unit, task.targets_per_unit) as show,
    ):
        for event in fit(learner, task, state, folder, interruption):
            write(event)
            show(event)
            for hook in hooks:
                hook(event)
    assert isinstance(event, Ended)
    report.say(f"Step {state.step:,}: {event.reason}.")
    return event


class _Evaluations:
    """The last evaluation of a training."""

    last: Evaluated | None = None

    def add(self, event: Event) -> None:
        self.last = event if isinstance(event, Evaluated) else self.last


def _announcement(task: BoundTask, prepared: Prepared, evaluated: Evaluated | None) -> str:
    """Return a sentence on what follows the last step, and how long it takes."""
    split, store = prepared.final_split
    length = ""
    if evaluated is not None:
        ratio = sum(store.tokens) / sum(prepared.dev.tokens) / task.evaluated_fraction()
        length = f", about {duration(evaluated.duration * ratio)}"
    return f"Scoring on {split}: {sum(store.tokens):,} tokens{length}; then the model is written."


def _finish(
    recipe: Recipe,
    learner: Learner,
    task: BoundTask,
    prepared: Prepared,
    state: TrainState,
    folder: Path,
    report: Reporter,
) -> Any:
    """Evaluate the best weights, or the last, and write the run folder."""
    final = initial_model(recipe, prepared, task, resuming=True)
    load_trained(final, _final_weights(learner, state, folder), str(folder / checkpoint.FOLDER))
    model = final.model.to(learner.world.device).eval()
    result = task.final_evaluation(model, report)
    if result.summary:
        report.say(result.summary)
    trainable = trainable_count(learner.model)
    run_files.write_run(recipe, prepared, task, final, result, state, folder, trainable)
    return result.predictor


def _final_weights(learner: Learner, state: TrainState, folder: Path) -> dict[str, Tensor]:
    """Return the weights that the run ends with, averaged if the recipe has an EMA."""
    best = learner.spec.evaluation.select == "best"
    step = state.best_step if best and state.best_step else state.step
    return checkpoint.weights_at(folder, step)
