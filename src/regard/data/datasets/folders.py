"""Folders of data sets, in the order in which they are searched:

FOLDER/NAME/…               for each FOLDER of REGARD_DATA (several, separated as in PATH)
REGARD_CACHE/data/NAME/…    the user's cache, into which data sets are downloaded
"""

import os
from collections.abc import Sequence
from pathlib import Path

from regard.data.datasets.catalog import DataFile

DATA, CACHE = "REGARD_DATA", "REGARD_CACHE"


def cache_folder() -> Path:
    """Return the folder for downloads: REGARD_CACHE, or `regard` in the user's cache folder."""
    if own := os.environ.get(CACHE):
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME") or (
        os.environ.get("LOCALAPPDATA") if os.name == "nt" else None
    )
    return Path(users or "~/.cache").expanduser() / "regard"


def download_folder(name: str) -> Path:
    """Return the folder that a data set is downloaded into."""
    return cache_folder() / "data" / name


def data_folders() -> list[Path]:
    """Return the folders of REGARD_DATA."""
    folders = os.environ.get(DATA, "").split(os.pathsep)
    return [Path(folder).expanduser() for folder in folders if folder]


def find_folder(name: str, files: Sequence[DataFile]) -> Path | None:
    """Return the first folder that has all these files of a data set."""
    for folder in candidates(name):
        if all((folder / file.path).is_file() for file in files):
            return folder
    return None


def candidates(name: str) -> list[Path]:
    """Return the folders where a data set may be, in the order of the search."""
    return [*(folder / name for folder in data_folders()), download_folder(name)]


def where_to_put(name: str, files: Sequence[DataFile]) -> str:
    """Return the sentence on what to put where, so that a data set is found."""
    listed = " and ".join(filter(None, [", ".join(f.path for f in files[:-1]), files[-1].path]))
    own = data_folders()
    folder = own[0] / name if own else download_folder(name)
    other = "or another" if own else f"or into {name} in a"
    return f"put {listed} into {folder} ({other} folder of {DATA})"
