"""A run folder is a model: weights, tokeniser, recipe, card, and a description that guards them.

    model.json          what it is for, its sizes and spec, and checksums of the parts
    model.safetensors   a part: the weights    tokenizer.json   a part: text ⇄ ids
    recipe.yaml         how it was made        README.md        the model card
    metrics.jsonl       how training went

The parts are what the model needs to run; a part that does not match its checksum is refused. The
papers (recipe, card, metrics) are for people, who may edit them.

Every file is written beside its place and renamed into it, `model.json` last: a folder with a
`model.json` whose checksums match is whole, anything else is named as what it is.
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
    """What a run folder holds."""

    task: str  # what the model is for: "translation", "language-model" …
    model: Mapping[str, Any]  # the model's spec, plain
    vocabulary: int
    details: Mapping[str, Any]  # what the job needs to know besides, and the scores
    weights: Mapping[str, Tensor]
    tokenizer: str
    extra_files: Mapping[str, str]  # other files that the job needs to run, by name
    documents: Mapping[str, str]  # files for people, by name: written, and not read again


def write(run: Run, folder: Path) -> None:
    parts = {name: text.encode() for name, text in run.extra_files.items()}
    parts[TOKENIZER] = run.tokenizer.encode()
    parts[WEIGHTS] = save_tensors({name: t.contiguous() for name, t in run.weights.items()})
    description = {
        "format": FORMAT,
        "task": run.task,
        "model": dict(run.model),
        "vocabulary": run.vocabulary,
        "details": dict(run.details),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(parts.items())},
    }
    vouching = json.dumps(description, indent=2, ensure_ascii=False).encode()
    papers = {name: text.encode() for name, text in run.documents.items()}
    ensure_writable(folder)
    write_all_atomic(folder, {**papers, **parts, MANIFEST: vouching})


def check_writable(folder: Path) -> None:
    """Find out, before hours are spent and without a trace, that the folder can be written."""
    standing = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not standing.is_dir() or not os.access(standing, os.W_OK):
        raise OutputError(f"{folder}: cannot be written; choose another folder.")


def ensure_writable(folder: Path) -> None:
    """Make sure, before hours are spent, that the folder is there and can be written."""
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
    """Is there a finished model?"""
    return (folder / MANIFEST).is_file()


def fingerprint(folder: Path) -> str:
    """Return a hash of model.json, which has the checksums of all other files of the model.

    It is computed from the file as written, whatever its format: adapters name their base by it.
    """
    return hashlib.sha256(
        json.dumps(_read_description(folder), sort_keys=True).encode()
    ).hexdigest()


def read(folder: Path) -> Run:
    """Read the run in a folder, verify every checksum, and upgrade it if it is of format 1."""
    description = _read_description(folder)
    try:
        checksums = dict(description["sha256"])
        files = {name: _read_checked(folder, name, digest) for name, digest in checksums.items()}
        weights, tokenizer = load_tensors(files.pop(WEIGHTS)), files.pop(TOKENIZER).decode()
        if description["format"] == format_1.FORMAT:
            description = format_1.upgrade_description(description)
            weights = format_1.upgrade_weights(weights)
        return Run(
            task=description["task"],
            model=description["model"],
            vocabulary=description["vocabulary"],
            details=description["details"],
            weights=weights,
            tokenizer=tokenizer,
            extra_files={name: data.decode() for name, data in files.items()},
            documents={},
        )
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise RunError(f"{folder / MANIFEST}: damaged or not ours ({error!r}).") from None


def _read_description(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such run folder; `regard demo` makes runs/demo.")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{folder}: there is no {MANIFEST} in it, so it holds no model.") from None
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read ({error}); the run must be made again.") from None
    _check_format(path, description.get("format") if isinstance(description, dict) else None)
    return dict(description)


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
            f"changed by hand: restore it, or make the run again."
        )
    return data
