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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from regard import format_1, run_commit
from regard.atomic import remove
from regard.config import shortened
from regard.errors import OutputError, RunError
from regard.json_files import JsonSpec, read_json, validate_json
from regard.pretrained import located, no_such_run
from regard.run_lock import lock

FORMAT = 3  # that is written; earlier ones are read too
PLAIN_NAMES = (1, 2)  # formats whose files have no checksum in their names
MANIFEST = run_commit.MANIFEST
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
CHAT_TEMPLATE = "chat_template.jinja"  # of a language model; it may be a file for people too
MAX_MANIFEST, MAX_TEXT = 1 << 26, 1 << 29  # bytes
MAX_VOCABULARY = 1 << 22  # tokens; the largest vocabularies in use have a quarter of it
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


# Returns the tensors in a file by name, and a function that returns the checksum of the file.
ReadWeights = Callable[[Path], tuple[Mapping[str, Any], Callable[[], str]]]


class Manifest(JsonSpec):
    """The content of model.json."""

    format: int
    task: str = Field(max_length=64)
    model: dict[str, Any]
    vocabulary: int = Field(ge=1, le=MAX_VOCABULARY)
    details: dict[str, Any]
    documents: list[str] = Field(default_factory=list, max_length=1 << 10)
    sha256: dict[str, Annotated[str, Field(max_length=64)]] = Field(max_length=64)


@dataclass(frozen=True)
class Run:
    """The content of a run folder."""

    task: str  # "translation", "language-model" …
    model: Mapping[str, Any]  # the model's spec, plain
    vocabulary: int
    details: Mapping[str, Any]  # further settings that the predictor needs, and the scores
    weights: Mapping[str, Any]  # tensors of torch, or the arrays of `map_tensors`
    tokenizer: str
    extra_files: Mapping[str, str]  # other files that the predictor needs, by name
    documents: Mapping[str, str]  # files for people, by name: written, never read
    verify: Callable[[], None] = lambda: None  # raises RunError if the weights are damaged


def write(run: Run, folder: Path, keep_training: bool = False) -> None:
    """Write a run folder; an earlier model stays until the new one is complete.

    Args:
        run: The content.
        folder: Where to write it.
        keep_training: Keep checkpoints and metrics, which are those of this model.
    """
    from safetensors.torch import save as save_tensors

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
    folder = located(folder)
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
    manifest = _read_manifest(located(folder))
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def describe(folder: Path) -> Manifest:
    """Return the content of model.json, upgraded if it is of format 1."""
    folder = located(folder)
    content = _read_manifest(folder)
    upgrades = content["format"] == format_1.FORMAT
    return _validated(folder, _upgraded(folder, content) if upgrades else content)


def read(folder: Path) -> Run:
    """Read the run in a folder, verify every checksum, and upgrade it if it is of format 1."""
    run = read_unverified(folder, _read_torch_weights)
    run.verify()
    return run


def read_unverified(folder: Path, read_weights: ReadWeights) -> Run:
    """Read the run in a folder; its caller verifies the weights, which takes time: `Run.verify`.

    Args:
        folder: The run folder.
        read_weights: Reads the weights from their file.
    """
    folder = located(folder)
    content = _read_manifest(folder)
    try:
        return _read_files(folder, content, read_weights)
    except RunError:
        if (newer := _read_manifest(folder)) == content:
            raise
        # Another process has replaced the model meanwhile.
        return _read_files(folder, newer, read_weights)


def _read_torch_weights(path: Path) -> tuple[Mapping[str, Any], Callable[[], str]]:
    from regard.tensor_files import read_tensors

    weights, checksum = read_tensors(path)
    return weights, lambda: checksum


def _read_files(folder: Path, content: dict[str, Any], read_weights: ReadWeights) -> Run:
    upgrades = content["format"] == format_1.FORMAT
    manifest = _validated(folder, _upgraded(folder, content) if upgrades else content)
    names = _stored_names({"sha256": manifest.sha256, "format": content["format"]})
    digest = manifest.sha256[WEIGHTS]
    weights, verify = _read_weights(folder, names[WEIGHTS], digest, read_weights)
    texts = {
        name: _read_text(folder, names[name], digest)
        for name, digest in manifest.sha256.items()
        if name != WEIGHTS
    }
    return Run(
        task=manifest.task,
        model=manifest.model,
        vocabulary=manifest.vocabulary,
        details=manifest.details,
        weights=format_1.upgrade_weights(weights) if upgrades else weights,
        tokenizer=texts.pop(TOKENIZER),
        extra_files=texts,
        documents={},
        verify=verify,
    )


def _upgraded(folder: Path, content: dict[str, Any]) -> dict[str, Any]:
    try:
        return format_1.upgrade_description(content)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{folder / MANIFEST}: damaged, or not written by Regard ({shortened(repr(error))})."
        ) from None


def _validated(folder: Path, content: dict[str, Any]) -> Manifest:
    manifest = validate_json(Manifest, content, str(folder / MANIFEST))
    for name in (WEIGHTS, TOKENIZER):
        if name not in manifest.sha256:
            raise RunError(
                f"{folder / MANIFEST}: sha256: has no checksum of {name}; the file is damaged or "
                f"was changed by hand: restore it."
            )
    return manifest


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        raise no_such_run(folder)
    if not path.is_file():
        raise RunError(f"{folder}: there is no {MANIFEST} in it, so it holds no model.")
    manifest = read_json(path, MAX_MANIFEST, finite=False)  # a score may be infinite
    _check_format(path, manifest.get("format") if isinstance(manifest, dict) else None)
    return dict(manifest)


def _check_format(path: Path, version: Any) -> None:
    if type(version) is int and version in (FORMAT, *PLAIN_NAMES):
        return
    if type(version) is int and version > FORMAT:
        raise RunError(
            f"{path}: format {shortened(str(version))} was made by a newer version of Regard; "
            f"update Regard."
        )
    raise RunError(
        f"{path}: format {shortened(repr(version))} is not one that this version reads "
        f"({', '.join(map(str, (*PLAIN_NAMES, FORMAT)))}); is it a run folder?"
    )


def _read_weights(
    folder: Path, name: str, digest: str, read_weights: ReadWeights
) -> tuple[Mapping[str, Any], Callable[[], None]]:
    path = _path_in(folder, name)
    try:
        weights, checksum = read_weights(path)
    except RunError:
        _read_checked(folder, name, digest)  # a wrong checksum explains more
        raise

    def verify() -> None:
        if checksum() != digest:
            raise _checksum_error(path)

    return weights, verify


def _read_text(folder: Path, name: str, digest: str) -> str:
    try:
        return _read_checked(folder, name, digest, MAX_TEXT).decode()
    except UnicodeDecodeError as error:
        raise RunError(
            f"{folder / name}: not UTF-8 (at byte {error.start:,}); restore the file."
        ) from None


def _read_checked(folder: Path, name: str, digest: str, max_bytes: int | None = None) -> bytes:
    path = _path_in(folder, name)
    try:
        if max_bytes is not None and path.stat().st_size > max_bytes:
            raise RunError(f"{path}: has more than {max_bytes:,} bytes; restore the file.")
        data = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror}).") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise _checksum_error(path)
    return data


def _path_in(folder: Path, name: str) -> Path:
    path = folder / name
    if path.parent != folder or name in ("", ".", "..") or "\0" in name:
        raise RunError(f"{folder / MANIFEST}: '{shortened(name)}' is not a file of this folder.")
    return path


def _checksum_error(path: Path) -> RunError:
    return RunError(
        f"{path}: does not match its checksum in {MANIFEST}; the file is damaged or was "
        f"changed by hand: restore it, or train the run again."
    )
