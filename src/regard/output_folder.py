"""A folder of output files that appears whole, or not at all."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.atomic import fsync_folder, remove
from regard.errors import OutputError
from regard.run_lock import FILE, lock


@contextmanager
def output_folder(folder: Path, overwrite: bool = False) -> Iterator[Path]:
    """Yield a new folder to write into, which takes the name of `folder` when the block ends.

    It is in `.NAME.partial` beside `folder`, with a lock; what a killed process left there is
    removed. Raises OutputError where `folder` has content, unless `overwrite` and the new folder
    has a file of every name, where another process writes it, and where it cannot be written.
    """
    _refuse_content(folder, overwrite)
    partial = folder.absolute().with_name(f".{folder.name}.partial")
    with lock(partial):
        for left in partial.iterdir():
            if left.name != FILE:
                remove(left)
        try:
            new = partial / "new"
            new.mkdir()
            yield new
            _refuse_content(folder, overwrite)
            _refuse_other_files(folder, {path.name for path in new.iterdir()})
            if folder.exists():
                folder.rename(partial / "old")
            new.rename(folder)
            fsync_folder(folder.absolute().parent)
        except OSError as error:
            raise OutputError(
                f"{folder}: cannot be written ({error.strerror}); choose another folder."
            ) from None
        finally:
            for name in ("new", "old"):
                remove(partial / name)


def _refuse_content(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is not a folder; choose another place.")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(
            f"{folder}: has files already; choose another folder, or replace them with --overwrite."
        )


def _refuse_other_files(folder: Path, names: Collection[str]) -> None:
    """Refuse to remove files that the new folder does not replace."""
    others = sorted(path.name for path in folder.glob("*") if path.name not in names)
    if others:
        raise OutputError(
            f"{folder / others[0]}: would be lost, since the new folder has no such file; remove "
            f"it, or choose another folder."
        )
