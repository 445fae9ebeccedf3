"""regard train: train a recipe and write a run folder."""

from pathlib import Path
from typing import Annotated

import typer


def train(
    recipe: Annotated[Path, typer.Argument(help="Recipe (YAML).")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Overrides of the recipe: key.path=value …")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run folder to write (default: runs/NAME-OF-RECIPE).")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing model.")
    ] = False,
) -> None:
    """Train a model as a recipe describes and write a run folder."""
    from regard.cli._shared.console import reporter, show_scores
    from regard.cli._shared.recipes import check_recipe

    report = reporter()
    check_recipe(recipe, overrides or (), report, download=True)  # before torch is imported
    from regard.api import train as train_recipe
    from regard.training.recipe import read_recipe

    read = read_recipe(recipe, overrides or (), report.say)
    folder = run or Path("runs") / recipe.stem
    train_recipe(read, folder, report, overwrite)
    show_scores(folder, report)
