"""Bring the files of a data set to this machine, unless they are there, and check them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regard.data.datasets.catalog import DataFile, Dataset
from regard.data.datasets.download import UnreachableError, checksum, download
from regard.data.datasets.folders import download_folder, find_folder, where_to_put
from regard.data.datasets.reports import SILENT, Reports
from regard.errors import DataError, OutputError
from regard.run_lock import lock


def fetch(
    dataset: Dataset, files: Sequence[DataFile], reports: Reports = SILENT, prefix: str = ""
) -> Path:
    """Return the folder with these files of a data set; those that are nowhere are downloaded.

    `prefix` precedes errors. Raises DataError for a file that is damaged or cannot be had.
    """
    folder = find_folder(dataset.name, files)
    if folder is None:
        folder = download_folder(dataset.name)
        _download_missing(dataset, files, folder, reports, prefix)
    for file in files:
        _check(dataset, file, folder / file.path, prefix)
    return folder


def missing_files(folder: Path, files: Sequence[DataFile]) -> list[DataFile]:
    """Return the files that a folder does not have."""
    return [file for file in files if not (folder / file.path).is_file()]


def not_here(dataset: Dataset, files: Sequence[DataFile]) -> str:
    """Return the sentence on a data set that is nowhere and is not to be downloaded."""
    if all(file.addresses for file in files):
        return f"data set {dataset.name} is not here: `regard data get {dataset.name}` downloads it"
    return _no_address(dataset, [file for file in files if not file.addresses])


def _download_missing(
    dataset: Dataset, files: Sequence[DataFile], folder: Path, reports: Reports, prefix: str
) -> None:
    """Download into a folder, one process at a time: others wait and find the files."""
    with _locked(folder, reports):
        missing = missing_files(folder, files)
        for file in missing:
            if file.addresses:
                try:
                    download(file, folder / file.path, reports)
                except UnreachableError as error:
                    raise DataError(
                        f"{prefix}data set {dataset.name} is not here and {error}: try again, "
                        f"or {where_to_put(dataset.name, missing_files(folder, files))}."
                    ) from None
        without = [file for file in missing if not file.addresses]
        if without:
            raise DataError(f"{prefix}{_no_address(dataset, without)}.")


@contextmanager
def _locked(folder: Path, reports: Reports) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(folder, reports.say))
        except OutputError as error:
            raise OutputError(f"{str(error).removesuffix('.')} with REGARD_CACHE.") from None
        yield


def _no_address(dataset: Dataset, files: Sequence[DataFile]) -> str:
    about = f"{dataset.note.rstrip('.')}; {dataset.homepage}" if dataset.note else dataset.homepage
    return (
        f"data set {dataset.name} is not here and has no address to download it from ({about}): "
        f"{where_to_put(dataset.name, files)}"
    )


def _check(dataset: Dataset, file: DataFile, path: Path, prefix: str) -> None:
    try:
        digest = checksum(path, file.bytes)
    except OSError as error:
        raise DataError(f"{prefix}{path}: cannot be read ({error.strerror}).") from None
    if digest not in file.sha256:
        raise DataError(
            f"{prefix}{path}: is not the file of data set {dataset.name} (its SHA-256, unpacked, "
            f"is {digest} and not {file.sha256[0]}): replace or remove it, or read it by its path "
            f"with another kind of source."
        )
