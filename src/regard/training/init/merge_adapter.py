"""Merge an adapter and its base model into one ordinary run (`regard merge`)."""

from dataclasses import replace
from pathlib import Path

from regard import run_folder
from regard.errors import RunError
from regard.merged_run import ADAPTER, read_merged
from regard.run_folder import Run


def merge(folder: Path, output: Path, overwrite: bool = False) -> None:
    """Write the run of a folder to `output`, with the adapter merged into the weights.

    Raises OutputError where `output` holds a run, unless `overwrite`.
    """
    with run_folder.writing(output):
        run_folder.refuse_to_replace(output, overwrite, folder)
        run_folder.write(_merged(folder), output)


def _merged(folder: Path) -> Run:
    metadata = run_folder.read(folder).details.get(ADAPTER)
    if metadata is None:
        raise RunError(f"{folder}: has no adapter, so there is nothing to merge.")
    run = read_merged(folder)
    merged = {"from": str(folder), "base": metadata["base"], "fingerprint": metadata["fingerprint"]}
    card = (
        f"# {folder.name}, merged\n\nMade with Regard from the adapter in {folder} and its base "
        f"model ({metadata['base']} from there): an ordinary model with the same outputs.\n"
    )
    documents = {"README.md": card}
    return replace(run, details={**run.details, "merged": merged}, documents=documents)
