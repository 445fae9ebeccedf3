"""Replace the model of a run folder: one rename, of model.json, commits all of it.

    .commit-1f3a90c2/     everything that is to be written, and plan.json, which lists it

1. All files are written into a staging folder and flushed to the disk.
2. The model's files move into the run folder. Their names contain their checksum, so those of the
   present model stay as they are.
3. model.json is renamed: the commit.
4. Documents move into place, and the files that only the earlier model needed are removed.

After a crash before step 3, `recover` removes what was staged; after a crash in step 4, it
completes the step.
"""

import hashlib
import json
import secrets
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from regard.atomic import fsync_folder, remove, write_flushed
from regard.errors import OutputError

MANIFEST = "model.json"
PREFIX, PLAN = ".commit-", "plan.json"


@dataclass(frozen=True)
class _Plan:
    """Names of the files that a commit adds, replaces and removes."""

    manifest: str  # sha256 of the new model.json
    added: list[str]  # the model's files that were not in the folder before
    documents: list[str]
    obsolete: list[str]


def commit(
    folder: Path,
    manifest: bytes,
    files: Mapping[str, bytes],
    documents: Mapping[str, bytes],
    obsolete: Collection[str],
) -> None:
    """Write a model into a folder, or leave the present one and raise an OutputError.

    Args:
        folder: An existing folder.
        manifest: Content of model.json.
        files: The model's files, by names that no file with other content has.
        documents: Other files; they replace those of the same name.
        obsolete: Names of files and folders to remove after the commit.
    """
    new = {*files, *documents, MANIFEST}
    plan = _Plan(
        manifest=hashlib.sha256(manifest).hexdigest(),
        added=[name for name in files if not (folder / name).exists()],
        documents=list(documents),
        obsolete=[name for name in obsolete if name not in new],
    )
    stage = folder / f"{PREFIX}{secrets.token_hex(4)}"
    content = {**files, **documents, MANIFEST: manifest, PLAN: json.dumps(asdict(plan)).encode()}
    try:
        try:
            _stage(stage, content)
            for name in files:
                (stage / name).replace(folder / name)
            fsync_folder(folder)
            (stage / MANIFEST).replace(folder / MANIFEST)
        except OSError:
            recover(folder)
            raise
        fsync_folder(folder)
        _complete(folder, stage, plan)
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot be written ({error.strerror}); choose another location."
        ) from None


def recover(folder: Path) -> None:
    """Complete or undo the commits of processes that have ended; only the lock's holder may."""
    for stage in folder.glob(f"{PREFIX}*"):
        plan = _read_plan(stage)
        if plan is not None and plan.manifest == _checksum(folder / MANIFEST):
            _complete(folder, stage, plan)
            continue
        for name in plan.added if plan else ():
            remove(folder / name)
        shutil.rmtree(stage, ignore_errors=True)


def _stage(stage: Path, content: Mapping[str, bytes]) -> None:
    stage.mkdir()
    for name, data in content.items():
        write_flushed(stage / name, data)
    fsync_folder(stage)


def _complete(folder: Path, stage: Path, plan: _Plan) -> None:
    for name in plan.documents:
        if (stage / name).exists():
            (stage / name).replace(folder / name)
    for name in plan.obsolete:
        remove(folder / name)
    fsync_folder(folder)
    shutil.rmtree(stage, ignore_errors=True)


def _read_plan(stage: Path) -> _Plan | None:
    """Return the plan of a staging folder; None where it was not written to its end."""
    try:
        plan = _Plan(**json.loads((stage / PLAN).read_text(encoding="utf-8")))
        names = [*plan.added, *plan.documents, *plan.obsolete]
        return plan if all(_is_file_name(name) for name in names) else None
    except (OSError, ValueError, TypeError):
        return None


def _is_file_name(name: str) -> bool:
    return Path(name).name == name and name not in ("", ".", "..")


def _checksum(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
