"""How heads grow apart in training: their divergence at each checkpoint of a run.

The first point is the model as it began, with the seed of the recipe; the last is the run's own.
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
from regard.insight.heads.head_activity import glimpses
from regard.insight.heads.head_names import by_kind
from regard.insight.heads.similarity import Likeness, likeness
from regard.models.base import ModelSpec
from regard.models.weights import set_weights
from regard.training import checkpoint
from regard.training.reporting.progress import Reporter, silent

FEW = 64  # rows that are looked at at each checkpoint


def likenesses(model: nn.Module, examples: Examples) -> dict[str, Likeness]:
    """Of the heads of each kind. Weights are not kept: a pass over the text for each kind."""
    return {
        kind: likeness(each[kind] for each in glimpses(model, examples)) for kind in by_kind(model)
    }


def fresh(folder: Path) -> nn.Module:
    """The model of a run as it was before training: the same spec, the recipe's seed or 0."""
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


def growth(
    model: nn.Module, folder: Path, examples: Examples, report: Reporter = silent
) -> list[dict[str, Any]]:
    """The mean divergence of each kind's heads by step, oldest first; empty without checkpoints."""
    places = checkpoint.newest_first(folder)[::-1]
    if not places:
        return []
    few, found = examples.few(FEW), []
    with report.bar("Looking at checkpoints", len(places) + 1, "checkpoints") as advance:
        for step, each in _stages(model, folder, places, report):
            means = {
                kind: {"within": like.within(like.divergence), "all": like.overall(like.divergence)}
                for kind, like in likenesses(each, few).items()
            }
            found.append({"step": step, "divergence": means})
            advance(1)
    return found


def _stages(
    model: nn.Module, folder: Path, places: list[Path], report: Reporter
) -> Iterator[tuple[int, nn.Module]]:
    yield 0, fresh(folder)
    other = deepcopy(model)
    for place in places:
        step = int(place.name.removeprefix("step-"))
        try:
            set_weights(other, checkpoint.weights_at(folder, step), str(place))
        except RunError as error:
            report.say(f"Passed over: {error}")
            continue
        yield step, other
