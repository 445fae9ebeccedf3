"""Titles of pages about runs."""

from pathlib import Path


def run_titles(*folders: Path) -> list[str]:
    """Return the name of each run folder; its path where two have the same name."""
    names = [folder.resolve().name or str(folder) for folder in folders]
    is_unique = len(set(names)) == len(set(folders))
    return names if is_unique else [str(folder) for folder in folders]
