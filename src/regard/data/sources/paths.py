"""Paths of a recipe: a file, or a folder for all files below it, sorted by name."""

from pathlib import Path

from regard.errors import DataError
from regard.nearest import cannot_be_read


def is_folder(path: Path) -> bool:
    """Return True for a folder; False too where nothing can be known, which a reader reports."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long, a folder that may not be read
        return False


def require_file(path: Path) -> None:
    """Raise DataError if a file is missing; the message has the nearest name in its folder."""
    try:
        path.stat()
    except FileNotFoundError as error:
        raise DataError(cannot_be_read(path, error)) from None
    except (OSError, ValueError):  # reported where it is read
        pass


def files_at(path: Path, pattern: str) -> list[Path]:
    """Return the path of a file, or the files below a folder that match, except hidden ones.

    A file need not exist. Raises DataError if nothing in a folder matches.
    """
    if not is_folder(path):
        return [path]
    below = sorted(file for file in path.rglob(pattern) if file.is_file())
    files = [
        file
        for file in below
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not files:
        raise DataError(f"{path}: there is no file {pattern} in this folder or below it.")
    return files
