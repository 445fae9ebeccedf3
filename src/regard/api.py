"""Train a recipe and resume a run, with the recorder of attention history attached."""

from collections.abc import Sequence
from pathlib import Path

from regard.insight import history
from regard.predictors.predictor import Predictor
from regard.training import trainer
from regard.training.recipe import Recipe
from regard.training.reporting.progress import Reporter, silent


def train(
    recipe: Recipe, folder: Path | str, report: Reporter = silent, overwrite: bool = False
) -> Predictor | None:
    """Train a recipe and write the run folder.

    Args:
        recipe: What to train, from `read_recipe`.
        folder: Run folder to write.
        report: Shows the progress (default: silent).
        overwrite: Replace a run that is in the folder (default: False).

    Returns:
        The trained model, as `regard.load` returns it. In distributed training, None in every
        process but the main one.

    Raises:
        ConfigError: The recipe asks for a combination that cannot be trained.
        DataError: The data cannot be used.
        OutputError: The folder holds a run, another process writes it, or it cannot be written.
        TrainingError: The training failed.
        Interrupted: Stopped by a signal; everything is saved, and `resume` continues.

    Example:
        >>> import regard
        >>> recipe = regard.read_recipe("recipe.yaml", ["training.steps=2"])
        >>> type(regard.train(recipe, "runs/short", overwrite=True)).__name__
        'Translator'
    """
    folder = Path(folder)
    recorder = history.recorder(recipe.attention_history, folder)
    predictor: Predictor | None = trainer.train(recipe, folder, report, overwrite, recorder)
    if predictor is not None:
        history.write_page(folder)
    return predictor


def resume(
    folder: Path | str, changes: Sequence[str] = (), report: Reporter = silent
) -> Predictor | None:
    """Resume the training of a run from its last valid checkpoint.

    Args:
        folder: Run folder of an interrupted or finished training.
        changes: Overrides of the recipe, such as "training.steps=2000".
        report: Shows the progress (default: silent).

    Returns:
        The trained model, as `regard.load` returns it. In distributed training, None in every
        process but the main one.

    Raises:
        RunError: The folder holds nothing to resume.
        OutputError: Another process writes the folder, or it cannot be written.
        ConfigError: A change is not valid, or cannot be made to a run that has begun.
        TrainingError: The training failed.
        Interrupted: Stopped by a signal; everything is saved.

    Example:
        >>> import regard
        >>> recipe = regard.read_recipe("recipe.yaml", ["training.steps=2"])
        >>> _ = regard.train(recipe, "runs/short", overwrite=True)
        >>> type(regard.resume("runs/short", ["training.steps=3"])).__name__
        'Translator'
    """
    folder = Path(folder)
    predictor: Predictor | None = trainer.resume(folder, changes, report, history.recorder)
    if predictor is not None:
        history.write_page(folder)
    return predictor
