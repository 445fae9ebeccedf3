"""Writing a file so that it is whole or not there: beside its place first, then renamed into it."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from regard.errors import OutputError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, or leave what was there untouched and say why."""
    write_all_whole(path.parent, {path.name: data})


def write_all_whole(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write several files, none of which takes its place before all are on the disk.

    They are renamed in the order given: let the one that vouches for the others come last.
    """
    # A suffix of its own, so that two writers never share a half-written file.
    suffix = f".{secrets.token_hex(4)}.partial"
    partials = {name: folder / f".{name}{suffix}" for name in files}
    try:
        for name, data in files.items():
            with partials[name].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for name, partial in partials.items():
            partial.replace(folder / name)
        sync_folder(folder)
    except OSError as error:
        where = folder / next(iter(files)) if len(files) == 1 else folder
        raise OutputError(
            f"{where}: cannot be written ({error.strerror}); choose another place."
        ) from None
    finally:
        for partial in partials.values():
            if partial.exists():
                partial.unlink()


def sync_folder(folder: Path) -> None:
    """Make sure that a rename in the folder is on the disk, so that a power cut cannot undo it."""
    if os.name == "nt":  # a folder cannot be opened there, and renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
