"""A run folder is a model: weights, tokenizer, recipe, model card, and a manifest with checksums.

    model.json          manifest: task, model spec, details, and checksums of the model's files
    model.safetensors   weights           tokenizer.json   text ⇄ ids
    recipe.yaml         the recipe        README.md        the model card
    metrics.jsonl       losses and scores of training

The files that the model needs to run are listed in the manifest; one that does not match its
checksum is refused. The documents (recipe, card, metrics) are for people, who may edit them.

Every file is written under another name and renamed, `model.json` last: a folder with a
`model.json` whose checksums match is complete.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from regard import format_1
from regard.atomic import write_all_atomic
from regard.errors import OutputError, RunError

FORMAT = 2  # that is written; format 1 is read too
MANIFEST = "model.json"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"


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


def write(run: Run, folder: Path) -> None:
    """Write a run folder, replacing the files of an earlier run."""
    files = {name: text.encode() for name, text in run.extra_files.items()}
    files[TOKENIZER] = run.tokenizer.encode()
    files[WEIGHTS] = save_tensors({name: t.contiguous() for name, t in run.weights.items()})
    content = {
        "format": FORMAT,
        "task": run.task,
        "model": dict(run.model),
        "vocabulary": run.vocabulary,
        "details": dict(run.details),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    manifest = json.dumps(content, indent=2, ensure_ascii=False).encode()
    documents = {name: text.encode() for name, text in run.documents.items()}
    ensure_writable(folder)
    write_all_atomic(folder, {**documents, **files, MANIFEST: manifest})


def check_writable(folder: Path) -> None:
    """Raise OutputError if the folder cannot be written; leave no trace."""
    existing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise OutputError(f"{folder}: cannot be written; choose another folder.")


def ensure_writable(folder: Path) -> None:
    """Create the folder; raise OutputError if it cannot be written."""
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OutputError(
            f"{folder}: cannot be written ({error.strerror}); choose another folder."
        ) from None


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
        files = {name: _read_checked(folder, name, digest) for name, digest in checksums.items()}
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
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
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
    if version in (FORMAT, format_1.FORMAT):
        return
    if isinstance(version, int) and version > FORMAT:
        raise RunError(
            f"{path}: format {version} was made by a newer version of Regard; update Regard."
        )
    raise RunError(
        f"{path}: format {version!r} is not one that this version reads "
        f"({format_1.FORMAT} and {FORMAT}); is it a run folder?"
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
