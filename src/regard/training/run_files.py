"""Files of a run folder that training writes and reads besides checkpoints.

training.json, recipe.yaml, ledger.json     written at the start: enough to resume
metrics.jsonl, tensorboard/, checkpoints/   written during training
model.json and the files it lists           written at the end

While the folder holds an earlier model (the run is trained longer, or `--overwrite` replaces it),
that model and its documents stay until the new one is written: the recipe of the training is then
in training.json only, and recipe.yaml, ledger.json and the card are replaced with the model.
"""

import json
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field

from regard import run_folder
from regard.atomic import remove, write_all_atomic
from regard.config import plain, write_yaml
from regard.data.store.prepare import Prepared
from regard.data.tokenizers.word_boundaries import WordBoundaries
from regard.errors import ConfigError, OutputError, RunError
from regard.json_files import JsonSpec, read_json, validate_json
from regard.models.base import parameter_count
from regard.training import checkpoint
from regard.training.checkpoint import TrainState
from regard.training.init.from_run import (
    InitialModel,
    InitReport,
    adapter_metadata,
    trained_weights,
)
from regard.training.recipe import Recipe, Say, make_recipe, read_recipe
from regard.training.reporting import metrics
from regard.training.reporting.card import card
from regard.training.reporting.curves import curves
from regard.training.tasks.base import BoundTask, TaskResult

RECIPE, LEDGER, START = "recipe.yaml", "ledger.json", "training.json"
TRAINING_RECIPE = "recipe"  # key of training.json
INIT_REPORT = "init_report"  # key of training.json and of the details: see InitReport
FIRST_FORMAT = 2  # whose recipes and checkpoints have today's names
MEASURED_ROWS, MEASURED_TOKENS = 2000, 1000  # of the training text, for tokens per word
HISTORY = "history"  # folder of what a step callback records


class _InitLine(JsonSpec):
    model_config = ConfigDict(extra="forbid")

    status: str
    names: str
    parameters: int
    copied: int
    note: str


class _InitReport(JsonSpec):
    model_config = ConfigDict(extra="forbid")

    run: str
    settings: dict[str, str]
    lines: list[_InitLine]


class _Start(JsonSpec):
    """The content of training.json."""

    format: int = Field(1, ge=1)  # format 1 did not write it
    prepared: str
    content: str | None = None
    init_report: _InitReport | None = None
    recipe: dict[str, Any] | None = None


def read_run_recipe(folder: Path, changes: Sequence[str], say: Say = lambda _: None) -> Recipe:
    """Read the recipe of a run to resume, with `changes` as overrides; `say`: see read_recipe."""
    for name in (RECIPE, START):
        if not (folder / name).is_file():
            raise RunError(f"{folder}: there is no {name} in it, so there is nothing to resume.")
    _check_format(folder)
    recipe = read_start(folder).get(TRAINING_RECIPE) if run_folder.exists(folder) else None
    for change in changes:
        if re.match(r"(init|adapter)\b", change):
            raise ConfigError(
                f"{change}: the initial weights of a run cannot be changed when it is resumed; "
                f"start over with `regard train … --overwrite`."
            )
    if recipe is not None:  # recipe.yaml is that of the model in the folder
        return make_recipe(recipe, changes, f"{folder / START}: {TRAINING_RECIPE}", say)
    return read_recipe(folder / RECIPE, changes, say)


def clear(folder: Path) -> None:
    """Remove the files of an earlier training, once everything is ready to replace it.

    Its model stays until the new one is written. The checkpoints are renamed first: until then the
    earlier training can be resumed.
    """
    discarded = folder / f".{checkpoint.FOLDER}.{secrets.token_hex(4)}.partial"
    try:
        with suppress(FileNotFoundError):
            (folder / checkpoint.FOLDER).rename(discarded)
        for name in (START, metrics.NAME, "tensorboard", HISTORY):
            remove(folder / name)
        remove(discarded)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror}).") from None


def write_start(
    recipe: Recipe, folder: Path, prepared: Prepared, init_report: dict[str, Any] | None
) -> None:
    """Write the files that `regard resume` needs; training.json last, with which it can resume."""
    documents = _documents(recipe, prepared)
    start = {
        "format": run_folder.FORMAT,
        "prepared": prepared.folder.name,
        "content": prepared.content,  # decides whether data are the same; older runs have none
        INIT_REPORT: init_report,
        TRAINING_RECIPE: plain(recipe),
    }
    written = {} if run_folder.exists(folder) else documents  # those of the model stay
    files = {**written, START: json.dumps(start)}
    write_all_atomic(folder, {name: text.encode() for name, text in files.items()})


def _documents(recipe: Recipe, prepared: Prepared) -> dict[str, str]:
    return {RECIPE: write_yaml(recipe), LEDGER: prepared.ledger.to_json()}


def read_start(folder: Path) -> dict[str, Any]:
    """Return the content of training.json: format, prepared data and the report on init."""
    content = read_json(folder / START, finite=False)
    validate_json(_Start, content, str(folder / START))
    return dict(content)


def _check_format(folder: Path) -> None:
    """Refuse to resume a run of another format: its recipe and checkpoints have other names."""
    version = read_start(folder).get("format", 1)  # format 1 did not write it
    if version > run_folder.FORMAT:
        raise RunError(f"{folder}: was made by a newer version of Regard; update Regard.")
    if version < FIRST_FORMAT:
        remedy = (
            f"start a new run from its weights with `regard train RECIPE init={folder}`"
            if run_folder.exists(folder)
            else "it has no finished model, so start over with `regard train`"
        )
        raise RunError(
            f"{folder}: was made by an earlier version of Regard and cannot be resumed; {remedy}."
        )


def is_written(folder: Path, state: TrainState) -> bool:
    """Return whether the folder holds the model of this state.

    It holds the model of an earlier step if a finished run was resumed with more steps and
    interrupted at its end. A damaged model is written again.
    """
    try:
        return run_folder.read(folder).details.get("training") == asdict(state)
    except RunError:
        return False


def write_run(
    recipe: Recipe,
    prepared: Prepared,
    task: BoundTask,
    final: InitialModel,
    result: TaskResult,
    state: TrainState,
    folder: Path,
    trainable: int,
) -> None:
    """Write the trained model with its card and curves; `trainable` counts trained parameters."""
    parameters = parameter_count(final.model)
    events = metrics.read(folder)
    init_report = read_start(folder).get(INIT_REPORT)
    file_format = recipe.data.file_format
    details = {
        "parameters": parameters,
        "trainable_parameters": trainable,
        "tokenizer_fingerprint": prepared.tokenizer.fingerprint,
        "tokens_per_word": _tokens_per_word(prepared),
        **prepared.tokenizer.role_overrides,
        "training": asdict(state),
        **({INIT_REPORT: init_report} if init_report else {}),
        **adapter_metadata(recipe, folder),
        **({"file_format": file_format} if file_format else {}),
        **({"fix_encoding": True} if recipe.data.filters.fix_encoding else {}),
        **result.details,
    }
    text = card(
        recipe,
        task,
        result,
        prepared.ledger,
        state,
        parameters,
        metrics.total_counts(events),
        InitReport.from_plain(init_report) if init_report else None,
    )
    run = run_folder.Run(
        task=recipe.task.kind(),
        model=plain(task.model()),
        vocabulary=len(prepared.tokenizer),
        details=details,
        weights=trained_weights(final),
        tokenizer=prepared.tokenizer.to_json(),
        extra_files=result.extra_files,
        documents={
            **_documents(recipe, prepared),
            "README.md": text,
            **{f"{name}.svg": svg for name, svg in curves(events).items()},
            **result.documents,
        },
    )
    run_folder.write(run, folder, keep_training=True)


def _tokens_per_word(prepared: Prepared) -> float:
    """Return the mean number of tokens of a word in the training text, from rows spread over it."""
    begins_word = WordBoundaries(prepared.tokenizer)
    rows = np.linspace(0, len(prepared.train) - 1, MEASURED_ROWS, dtype=np.int64)
    texts = [ids[:MEASURED_TOKENS] for row in set(rows.tolist()) for ids in prepared.train.row(row)]
    words = sum(int(begins_word(ids).sum()) for ids in texts if len(ids))
    return round(sum(map(len, texts)) / max(words, 1), 3)
