"""Divergence of heads over training: at each checkpoint of a run.

The first point is the initial model with the seed of the recipe, the last the run's own.
"""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard import run_folder
from regard.config import read_yaml, validate
from regard.errors import ConfigError, RunError
from regard.insight.heads.examples import Examples
from regard.insight.heads.head_activity import head_activity
from regard.insight.heads.head_names import by_kind
from regard.insight.heads.similarity import Similarity, similarity
from regard.models.base import ModelSpec
from regard.models.weights import set_weights
from regard.training import checkpoint
from regard.training.reporting.progress import Reporter, silent

ROWS = 64  # used at each checkpoint


def similarities(model: nn.Module, examples: Examples) -> dict[str, Similarity]:
    """Return the similarity of the heads of each kind, in one pass over the text for each kind."""
    return {
        kind: similarity(activity[kind] for activity in head_activity(model, examples))
        for kind in by_kind(model)
    }


def untrained_model(folder: Path) -> nn.Module:
    """Return the initial model of a run: the same spec, with the recipe's seed or 0."""
    run = run_folder.read(folder)
    spec = validate(ModelSpec, run.model, str(folder / run_folder.MANIFEST))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_seed(folder))
        return spec.build(run.vocabulary).eval()


def _seed(folder: Path) -> int:
    try:
        return int(read_yaml(folder / "recipe.yaml")["training"]["seed"])
    except (ConfigError, KeyError, TypeError, ValueError):
        return 0  # an imported model has no recipe


def divergence_over_training(
    model: nn.Module, folder: Path, examples: Examples, report: Reporter = silent
) -> list[dict[str, Any]]:
    """Return the mean divergence of each kind of heads by step; empty without checkpoints."""
    checkpoints = checkpoint.newest_first(folder)[::-1]
    if not checkpoints:
        return []
    few, steps = examples.few(ROWS), []
    with report.bar("Comparing checkpoints", len(checkpoints) + 1, "checkpoints") as advance:
        for step, stage in _stages(model, folder, checkpoints, report):
            means = {
                kind: {"within": like.within(like.divergence), "all": like.overall(like.divergence)}
                for kind, like in similarities(stage, few).items()
            }
            steps.append({"step": step, "divergence": means})
            advance(1)
    return steps


def _stages(
    model: nn.Module, folder: Path, checkpoints: list[Path], report: Reporter
) -> Iterator[tuple[int, nn.Module]]:
    yield 0, untrained_model(folder)
    other = deepcopy(model)
    for path in checkpoints:
        step = int(path.name.removeprefix("step-"))
        try:
            set_weights(other, checkpoint.weights_at(folder, step), str(path))
        except RunError as error:
            report.say(f"Skipped: {error}")
            continue
        yield step, other
