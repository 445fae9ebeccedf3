"""regard merge: an adapter and its base as one ordinary run."""

from dataclasses import replace
from pathlib import Path

from regard import run_folder
from regard.errors import OutputError, RunError
from regard.merged_run import ADAPTER, read_merged


def merge(folder: Path, output: Path) -> None:
    """Write the run in a folder again with its adapter merged into the weights."""
    if run_folder.exists(output):
        raise OutputError(f"{output}: a model is there; choose another folder.")
    run_folder.check_writable(output)
    note = run_folder.read(folder).details.get(ADAPTER)
    if note is None:
        raise RunError(f"{folder}: has no adapter, so there is nothing to merge: it is whole.")
    run = read_merged(folder)
    merged = {"from": str(folder), "base": note["base"], "fingerprint": note["fingerprint"]}
    card = (
        f"# {folder.name}, merged\n\nMade with Regard from the adapter in {folder} and its base "
        f"({note['base']} from there): an ordinary model, which says what the two say together.\n"
    )
    papers = {"README.md": card}
    run_folder.write(
        replace(run, details={**run.details, "merged": merged}, documents=papers), output
    )
