"""A run folder is a model: weights, tokenizer, recipe, model card, and a manifest with checksums.

    model.json                        manifest: task, model spec, details, checksums of the files:
    model-5f0c2b9ad1e7.safetensors      weights
    tokenizer-90ab12cd34ef.json         text ⇄ ids
    recipe.yaml       the recipe      README.md   the model card
    metrics.jsonl     losses and scores of training

The files that the model needs to run are listed in the manifest; one that does not match its
checksum is refused. Their names contain the first digits of the checksum, so that a new model can
be written beside the present one: renaming `model.json` replaces it (see run_commit.py). The
documents (recipe, card, metrics) are for people, who may edit them.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from regard import format_1, run_commit
from regard.atomic import remove
from regard.errors import OutputError, RunError
from regard.run_lock import lock

FORMAT = 3  # that is written; earlier ones are read too
PLAIN_NAMES = (1, 2)  # formats whose files have no checksum in their names
MANIFEST = run_commit.MANIFEST
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
DIGITS = 12  # of the checksum in a file name
TRAINING = (  # files of training; other runs have none
    "training.json",
    "recipe.yaml",
    "ledger.json",
    "metrics.jsonl",
    "checkpoints",
    "tensorboard",
    "history",
    "history.html",
)


@dataclass(frozen=True)
class Run:
    """The content of a run folder."""

    task: str  # "translation", "language-model" …
    model: Mapping[str, Any]  # the model's spec, plain
    vocabulary: int
    details: Mapping[str, Any]  # further settings that the predictor needs, and the scores
    weights: Mapping[str, Tensor]
    tokenizer: str
    extra_files: Mapping[str, str]  # other files that the predictor needs, by name
    documents: Mapping[str, str]  # files for people, by name: written, never read


def write(run: Run, folder: Path, keep_training: bool = False) -> None:
    """Write a run folder; an earlier model stays until the new one is complete.

    Args:
        run: The content.
        folder: Where to write it.
        keep_training: Keep checkpoints and metrics, which are those of this model.
    """
    data = {name: text.encode() for name, text in run.extra_files.items()}
    data[TOKENIZER] = run.tokenizer.encode()
    data[WEIGHTS] = save_tensors({name: t.contiguous() for name, t in run.weights.items()})
    checksums = {name: hashlib.sha256(data[name]).hexdigest() for name in sorted(data)}
    content = {
        "format": FORMAT,
        "task": run.task,
        "model": dict(run.model),
        "vocabulary": run.vocabulary,
        "details": dict(run.details),
        "documents": sorted(run.documents),
        "sha256": checksums,
    }
    manifest = json.dumps(content, indent=2, ensure_ascii=False).encode()
    files = {stored_name(name, checksums[name], FORMAT): data[name] for name in data}
    documents = {name: text.encode() for name, text in run.documents.items()}
    with writing(folder):
        obsolete = [*_names_of_earlier(folder), *(() if keep_training else TRAINING)]
        run_commit.commit(folder, manifest, files, documents, obsolete)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder and clear up what a killed process left in it.

    Raises OutputError where another process holds it.
    """
    with lock(folder):
        run_commit.recover(folder)
        for name in TRAINING:
            for partial in folder.glob(f".{name}.*.partial"):
                remove(partial)
        for partial in folder.glob("*/.step-*.partial"):  # checkpoints and attention history
            remove(partial)
        yield


def refuse_to_replace(folder: Path, overwrite: bool = False, source: Path | None = None) -> None:
    """Raise OutputError where a model or a training would be replaced, unless `overwrite`.

    `source`, the run that is read to make the new one, is never replaced.
    """
    if source is not None and folder.resolve() == source.resolve():
        raise OutputError(
            f"{folder}: is the run that the new one is made from; choose another folder."
        )
    if not overwrite and exists(folder):
        raise OutputError(f"{folder}: a trained model is there; --overwrite replaces it.")
    if not overwrite and any((folder / "checkpoints").glob("step-*")):
        raise OutputError(
            f"{folder}: an unfinished run is there; `regard resume {folder}` continues it, "
            f"--overwrite starts over."
        )


def _names_of_earlier(folder: Path) -> list[str]:
    """Return the names of the model's files and documents that are in the folder now."""
    try:
        manifest = _read_manifest(folder)
        return [*_stored_names(manifest).values(), *manifest.get("documents", ())]
    except (RunError, KeyError, TypeError, ValueError, AttributeError):
        return []


def stored_name(name: str, checksum: str, version: int) -> str:
    """Return the name in the folder of a model's file: model-5f0c2b9ad1e7.safetensors."""
    if version in PLAIN_NAMES:
        return name
    path = Path(name)
    return str(path.with_stem(f"{path.stem}-{checksum[:DIGITS]}"))


def _stored_names(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the names in the folder of all of the model's files."""
    checksums, version = manifest["sha256"], manifest["format"]
    return {name: stored_name(name, checksum, version) for name, checksum in checksums.items()}


def path_of(folder: Path, name: str) -> Path:
    """Return where a model's file is: that of "tokenizer.json", for example."""
    try:
        return folder / _stored_names(_read_manifest(folder))[name]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError(f"{folder / MANIFEST}: does not list {name}; is it a run folder?") from None


def check_writable(folder: Path) -> None:
    """Raise OutputError if the folder cannot be written; leave no trace."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise OutputError(f"{folder}: cannot be written; choose another folder.")


def exists(folder: Path) -> bool:
    """Return whether the folder holds a finished model."""
    return (folder / MANIFEST).is_file()


def fingerprint(folder: Path) -> str:
    """Return a hash of model.json, which has the checksums of all other files of the model.

    It is computed from the file as written, whatever its format: adapters name their base by it.
    """
    return hashlib.sha256(json.dumps(_read_manifest(folder), sort_keys=True).encode()).hexdigest()


def read(folder: Path) -> Run:
    """Read the run in a folder, verify every checksum, and upgrade it if it is of format 1."""
    manifest = _read_manifest(folder)
    try:
        checksums = dict(manifest["sha256"])
        names = _stored_names(manifest)
        files = {name: _read_checked(folder, names[name], checksums[name]) for name in names}
        weights, tokenizer = load_tensors(files.pop(WEIGHTS)), files.pop(TOKENIZER).decode()
        if manifest["format"] == format_1.FORMAT:
            manifest = format_1.upgrade_description(manifest)
            weights = format_1.upgrade_weights(weights)
        return Run(
            task=manifest["task"],
            model=manifest["model"],
            vocabulary=manifest["vocabulary"],
            details=manifest["details"],
            weights=weights,
            tokenizer=tokenizer,
            extra_files={name: data.decode() for name, data in files.items()},
            documents={},
        )
    except (KeyError, TypeError, ValueError, AttributeError, SafetensorError) as error:
        raise RunError(
            f"{folder / MANIFEST}: damaged, or not written by Regard ({error!r})."
        ) from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such run folder; `regard demo` makes runs/demo.")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder}: there is no {MANIFEST} in it, so it holds no model.") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); train the run again.") from None
    _check_format(path, manifest.get("format") if isinstance(manifest, dict) else None)
    return dict(manifest)


def _check_format(path: Path, version: Any) -> None:
    if version in (FORMAT, *PLAIN_NAMES):
        return
    if isinstance(version, int) and version > FORMAT:
        raise RunError(
            f"{path}: format {version} was made by a newer version of Regard; update Regard."
        )
    raise RunError(
        f"{path}: format {version!r} is not one that this version reads "
        f"({', '.join(map(str, (*PLAIN_NAMES, FORMAT)))}); is it a run folder?"
    )


def _read_checked(folder: Path, name: str, digest: str) -> bytes:
    path = folder / name
    if path.parent != folder or name in ("", ".", ".."):
        raise RunError(f"{folder / MANIFEST}: '{name}' is not a file of this folder.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}).") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise RunError(
            f"{path}: does not match its checksum in {MANIFEST}; the file is damaged or was "
            f"changed by hand: restore it, or train the run again."
        )
    return data
