"""Train a recipe and resume a run, with everything that watches training attached."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.insight import history
from regard.training import trainer
from regard.training.recipe import Recipe
from regard.training.reporting.progress import Reporter, silent


def train(
    recipe: Recipe, folder: Path | str, report: Reporter = silent, fresh: bool = False
) -> Any:
    """Train a recipe and write the run folder; return what `regard.load` would."""
    folder = Path(folder)
    recorder = history.recorder(recipe.attention_history, folder)
    product = trainer.train(recipe, folder, report, fresh, recorder)
    history.write_page(recipe.attention_history, folder)
    return product


def resume(folder: Path | str, changes: Sequence[str] = (), report: Reporter = silent) -> Any:
    """Resume a run from its last whole checkpoint; `changes` are overrides of the recipe."""
    folder = Path(folder)
    recipe = trainer.read_run_recipe(folder, changes)
    product = trainer.resume(
        folder, changes, report, history.recorder(recipe.attention_history, folder)
    )
    history.write_page(recipe.attention_history, folder)
    return product
