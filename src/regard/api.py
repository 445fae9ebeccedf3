"""Train a recipe and resume a run, recording the attention history where the recipe has one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.insight import history
from regard.training import trainer
from regard.training.recipe import Recipe
from regard.training.reporting.progress import Reporter, silent
from regard.training.run_files import read_run_recipe


def train(
    recipe: Recipe, folder: Path | str, report: Reporter = silent, overwrite: bool = False
) -> Any:
    """Train a recipe and write the run folder; return the predictor, as `regard.load` would.

    Raises OutputError where the folder holds a run already, unless `overwrite`, and Interrupted
    after Ctrl-C or SIGTERM, when a checkpoint has been written.
    """
    folder = Path(folder)
    recorder = history.recorder(recipe.attention_history, folder)
    predictor = trainer.train(recipe, folder, report, overwrite, recorder)
    history.write_page(recipe.attention_history, folder)
    return predictor


def resume(folder: Path | str, changes: Sequence[str] = (), report: Reporter = silent) -> Any:
    """Resume a run from its newest intact checkpoint; `changes` are overrides of the recipe."""
    folder = Path(folder)
    spec = read_run_recipe(folder, changes).attention_history
    predictor = trainer.resume(folder, changes, report, history.recorder(spec, folder))
    history.write_page(spec, folder)
    return predictor
