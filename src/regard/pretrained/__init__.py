"""Models that come with Regard, accepted by name wherever a run folder is.

`fr-en` and `en-fr` are one model; the name chooses the target language. A run folder of that name
in the current directory comes first.
"""

from pathlib import Path

from regard.errors import RunError
from regard.nearest import nearest_path

FOLDER = Path(__file__).parent
MANIFEST = "model.json"  # a folder with it, or with one of the others, is a run folder
TRAINING = ("training.json", "recipe.yaml")

# Folder and target language of each name.
MODELS = {"fr-en": ("french-english", "en"), "en-fr": ("french-english", "fr")}


def is_pretrained(run: Path) -> bool:
    """Return whether a run is the name of a model that comes with Regard, and no run folder."""
    return str(run) in MODELS and not any((run / name).exists() for name in (MANIFEST, *TRAINING))


def located(run: Path) -> Path:
    """Return the folder of a run: that of a pretrained model, or the run itself."""
    return FOLDER / MODELS[str(run)][0] if is_pretrained(run) else run


def target_language(run: Path) -> str | None:
    """Return the target language that the name of a pretrained model chooses."""
    return MODELS[str(run)][1] if is_pretrained(run) else None


def output_folder(run: Path) -> Path:
    """Return the folder for pages and exports of a run: of a pretrained model, runs/NAME."""
    return Path("runs") / run if is_pretrained(run) else run


def no_such_run(run: Path) -> RunError:
    """Return the error for a run that is neither a folder nor a name."""
    hint = nearest_path(run) or f"; the models in the package are {' and '.join(MODELS)}."
    return RunError(f"{run}: there is no such run folder{hint}")
