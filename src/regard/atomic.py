"""Atomic writes: a file is written under a temporary name and then renamed into place."""

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from regard.errors import OutputError


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file, or leave the existing one untouched and raise an OutputError."""
    write_all_atomic(path.parent, {path.name: data})


def write_all_atomic(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write several files; none is renamed into place before all are on the disk.

    They are renamed in the order given: a manifest of the others comes last.
    """
    # A random suffix, so that two writers never share a partial file.
    suffix = f".{secrets.token_hex(4)}.partial"
    partials = {name: folder / f".{name}{suffix}" for name in files}
    try:
        for name, data in files.items():
            write_flushed(partials[name], data)
        for name, partial in partials.items():
            partial.replace(folder / name)
        fsync_folder(folder)
    except OSError as error:
        target = folder / next(iter(files)) if len(files) == 1 else folder
        raise OutputError(
            f"{target}: cannot be written ({error.strerror}); choose another location."
        ) from None
    finally:
        for partial in partials.values():
            if partial.exists():
                partial.unlink()


def write_flushed(path: Path, data: bytes) -> None:
    """Write a file and flush it to the disk."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Remove a file or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def fsync_folder(folder: Path) -> None:
    """Flush a rename in the folder to the disk, so that a power cut cannot undo it."""
    if os.name == "nt":  # folders cannot be opened, and renames are journaled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
