"""How attention forms: a text's attention kept while a model is trained, to be played as a film.

attention_history: {every: 200, text: "The animal didn't cross the street."}        in a recipe
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.atomic import write_atomic
from regard.errors import DataError
from regard.insight.look import look
from regard.insight.page import render
from regard.insight.picture import Film, Picture, Scene
from regard.training.recipe import AttentionHistorySpec
from regard.training.trainer import HISTORY, StepCallback

PAGE = "film.html"


def film(folder: Path) -> Film:
    """What was kept while the model in this run folder was trained."""
    kept = sorted((folder / HISTORY).glob("step-*.json.gz"))
    if not kept:
        raise DataError(
            f"{folder}: no film was made while it was trained; put "
            f"`attention_history: {{every: 200, text: …}}` into its recipe and train again."
        )
    return Film(tuple(Scene(_title(file), (_read(file),)) for file in kept))


def recorder(spec: AttentionHistorySpec | None, folder: Path) -> StepCallback | None:
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
        target = folder / HISTORY / f"step-{step:07}.json.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)

    return keep


def write_page(spec: AttentionHistorySpec | None, folder: Path) -> None:
    """Write the page of what was recorded, if anything was."""
    if spec is not None:
        render.write(film(folder), folder / PAGE)


def _title(file: Path) -> str:
    return f"step {int(file.name.split('.')[0].removeprefix('step-')):,}"


def _read(file: Path) -> Picture:
    try:
        return Picture.from_json(json.loads(gzip.decompress(file.read_bytes())))
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise DataError(f"{file}: damaged ({error}); delete it.") from None
