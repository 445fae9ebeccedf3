"""A path in a recipe: a file, or a folder for all files of a kind below it, in order of name."""

from pathlib import Path

from regard.errors import DataError


def files_at(path: Path, pattern: str) -> list[Path]:
    """The file itself, there or not; of a folder what matches, but nothing hidden."""
    if not path.is_dir():
        return [path]
    below = sorted(file for file in path.rglob(pattern) if file.is_file())
    found = [
        file
        for file in below
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not found:
        raise DataError(f"{path}: there is no file {pattern} in this folder or below it.")
    return found
