"""Nearest existing names for the errors of missing ones: keys, kinds, files and folders."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

MAX_NAMES = 10_000  # of a folder that are compared


def did_you_mean(name: str, known: Sequence[str], cutoff: float = 0.5) -> str:
    """Return the question after the nearest known name, or nothing if none is near."""
    near = get_close_matches(name, known, n=1, cutoff=cutoff)
    return f", did you mean '{near[0]}'?" if near else ""


def nearest_path(path: Path) -> str:
    """Return the question after the nearest existing path, or nothing if none is near."""
    try:
        near = _nearest(path)
    except (OSError, ValueError):  # a name that no file can have, a folder that cannot be read
        return ""
    return f", did you mean '{near}'?" if near is not None else ""


def cannot_be_read(path: Path, error: OSError) -> str:
    """Return the sentence for a file that cannot be read, with the nearest one if it is missing."""
    hint = nearest_path(path) if isinstance(error, FileNotFoundError) else ""
    return f"{path}: cannot be read ({error.strerror}){hint or '.'}"


def _nearest(path: Path) -> Path | None:
    folder = path.parent if path.parent.is_dir() else _nearest(path.parent)
    if folder is None or not folder.is_dir():
        return None
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MAX_NAMES)]
    near = get_close_matches(path.name, names, n=1, cutoff=0.6)
    return folder / near[0] if near else None
