"""How attention forms: a text's attention kept while a model is trained, to be played as a film.

look: {every: 200, text: "The animal didn't cross the street."}        in a recipe
"""

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.files import write_whole
from regard.insight import page
from regard.insight.look import look
from regard.insight.picture import Film, Picture, Scene
from regard.training import train as training
from regard.training.progress import Reporter, silent
from regard.training.recipe import LookSpec, Recipe

PAGE = "film.html"


def train(
    recipe: Recipe, folder: Path | str, report: Reporter = silent, fresh: bool = False
) -> Any:
    """Train what the recipe says and write the run folder; gives what `regard.load` would."""
    product = training.train(recipe, folder, report, fresh, _camera(recipe.look, Path(folder)))
    _develop(recipe, Path(folder))
    return product


def resume(folder: Path | str, changes: Sequence[str] = (), report: Reporter = silent) -> Any:
    """Go on from the last whole checkpoint; `changes` are overrides of the recipe."""
    recipe = training.recipe_of(Path(folder), changes)
    product = training.resume(folder, changes, report, _camera(recipe.look, Path(folder)))
    _develop(recipe, Path(folder))
    return product


def film(folder: Path) -> Film:
    """What was kept while the model in this run folder was trained."""
    kept = sorted((folder / training.FILM).glob("step-*.json.gz"))
    if not kept:
        raise DataError(
            f"{folder}: no film was made while it was trained; put "
            f"`look: {{every: 200, text: …}}` into its recipe and train again."
        )
    return Film(tuple(Scene(_title(file), (_read(file),)) for file in kept))


def _camera(spec: LookSpec | None, folder: Path) -> training.Onlooker | None:
    if spec is None:
        return None

    def keep(step: int, product: Any) -> None:
        seen = look(product, spec.text, title=str(folder))
        plain = replace(
            seen,
            panels=tuple(replace(panel, scores=None) for panel in seen.panels),
            flows=(),
            lens=None,
            steps=(),
        )
        content = gzip.compress(json.dumps(plain.to_json()).encode())
        target = folder / training.FILM / f"step-{step:07}.json.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)

    return keep


def _develop(recipe: Recipe, folder: Path) -> None:
    if recipe.look is not None:
        page.write(film(folder), folder / PAGE)


def _title(file: Path) -> str:
    return f"step {int(file.name.split('.')[0].removeprefix('step-')):,}"


def _read(file: Path) -> Picture:
    try:
        return Picture.from_json(json.loads(gzip.decompress(file.read_bytes())))
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise DataError(f"{file}: damaged ({error}); delete it.") from None
