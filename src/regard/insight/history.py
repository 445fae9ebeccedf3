"""Attention history: the attention of one text, recorded every few steps of training.

attention_history: {every: 200, text: "The animal didn't cross the street."}        in a recipe
"""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from regard.atomic import write_atomic
from regard.errors import DataError
from regard.insight.look import look
from regard.insight.page import render
from regard.insight.picture import History, Picture, Snapshot
from regard.insight.run_titles import run_titles
from regard.json_files import parse_json
from regard.training.recipe import AttentionHistorySpec
from regard.training.run_files import HISTORY
from regard.training.trainer import StepCallback

PAGE = "history.html"


def read_history(folder: Path) -> History:
    """Return the snapshots that were recorded while the model in this run folder was trained."""
    files = sorted((folder / HISTORY).glob("step-*.json.gz"))
    if not files:
        raise DataError(
            f"{folder}: no attention history was recorded in training; put "
            f"`attention_history: {{every: 200, text: …}}` into its recipe and train again."
        )
    return History(tuple(Snapshot(_title(file), (_read(file),)) for file in files))


def recorder(spec: AttentionHistorySpec | None, folder: Path) -> StepCallback | None:
    """Return a callback that writes a snapshot of the text into the run folder at each call."""
    if spec is None:
        return None

    def record(step: int, predictor: Any) -> None:
        picture = look(predictor, spec.text, title=run_titles(folder)[0], views=())
        content = gzip.compress(json.dumps(picture.to_json()).encode())
        target = folder / HISTORY / f"step-{step:07}.json.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, content)

    return record


def write_page(folder: Path) -> None:
    """Write the page of the recorded history, if there is one."""
    if (folder / HISTORY).is_dir():
        render.write(read_history(folder), folder / PAGE)


def _title(file: Path) -> str:
    return f"step {int(file.name.split('.')[0].removeprefix('step-')):,}"


def _read(file: Path) -> Picture:
    try:
        data = gzip.decompress(file.read_bytes())
        return Picture.from_json(parse_json(data, str(file), DataError))
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file}: damaged ({error}); delete it.") from None
