"""Prepare data: from sources to a token store, in constant memory.

    prepared/<key>/
      train.arrow, dev.arrow, test.arrow   the splits, as ids
      tokenizer.json                       text ⇄ ids
      languages.json                       token counts by language, for language identification
      ledger.json                          what became of every line
      fingerprint.json                     settings, files, sizes and checksums of the store

The key is that of the fingerprint, so that an existing store is reused, once all its files have
matched their checksums. The folder is built under another name and then renamed: it is complete or
does not exist. If two processes prepare the same data at once, the later one uses the folder of the
earlier one.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from regard.atomic import fsync_folder, write_atomic
from regard.data.advice import advisor
from regard.data.config import DataSpec
from regard.data.ledger import Ledger
from regard.data.records import SEPARATE, LengthLimits
from regard.data.store import fingerprint
from regard.data.store.build import Progress, build_splits
from regard.data.store.checksums import checksum, seal, unseal
from regard.data.store.content import content_digest
from regard.data.store.fingerprint import Fingerprint, take_fingerprint
from regard.data.store.store import Section, SplitStats, Store
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import SPECIAL_ROLES, Tokenizer
from regard.errors import DataError, OutputError, RunError

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    flock = None  # type: ignore[assignment]

STALE = 24 * 3600  # seconds without a change, after which an unfinished folder is removed
ATTEMPTS = 3  # to open or build a store that other processes replace at the same time

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """Data that is ready for training."""

    folder: Path
    tokenizer: Tokenizer
    ledger: Ledger
    train: Store
    dev: Store
    test: Store | None
    languages: tuple[str, ...]
    labels: tuple[str, ...]
    language_id: LanguageIdentifier
    unknown_rate: float  # fraction of the training tokens that are unknown or spelled in bytes
    content: str  # digest of all that training reads: see content.py
    reused: bool

    @property
    def final_split(self) -> tuple[str, Store]:
        """Name and store of the split for the final evaluation: test, or dev without a test."""
        return ("dev", self.dev) if self.test is None else ("test", self.test)

    def is_same_data(self, name: str, content: str | None) -> bool:
        """Return True if this is the content of another store, given by folder name and digest.

        Without a digest, as in older runs, the store is read if it still exists.
        """
        if content is not None:
            return content == self.content
        if name == self.folder.name:
            return True
        folder = self.folder.parent / name
        if not re.fullmatch("[0-9a-f]{16}", name) or not folder.is_dir():
            return False
        try:
            tokenizer = Tokenizer.from_json((folder / "tokenizer.json").read_text("utf-8"))
            for role in SPECIAL_ROLES:  # the recipe may assign them to other pieces
                setattr(tokenizer, role, getattr(self.tokenizer, role))
            return content_digest(folder, tokenizer, self.labels) == self.content
        except (OSError, ValueError, DataError, RunError):
            return False


def prepare(
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    say: Say = lambda _: None,
    progress: Progress = lambda _, __: None,
    special_tokens: Sequence[str] = (),
    length_limits: LengthLimits = SEPARATE,
) -> Prepared:
    """Return the stores of the data, built now unless they exist.

    `limit` is the model's maximum length in tokens; `special_tokens` are names of tokens that the
    tokenizer needs beside the languages: mask for <mask>. Raises DataError for unusable data.
    """
    data.fetch()  # those that are here and checked already are not read again
    taken = take_fingerprint(data, tokenizer, limit, special_tokens, length_limits)
    folder = data.prepared / taken.key
    for attempt in range(1, ATTEMPTS + 1):
        prepared = _reuse(folder, data, tokenizer, taken, say)
        if prepared is not None:
            break
        _build(folder, data, tokenizer, limit, special_tokens, taken, progress, length_limits)
        try:
            prepared = _open(folder, data, tokenizer, taken, reused=False)
            break
        except DataError:
            if attempt == ATTEMPTS:
                raise
    assert prepared is not None
    prepared.ledger.enforce(data.filters.max_dropped, advisor(data, limit))
    if data.dev is None:
        say(f"There is no data.dev: {len(prepared.dev):,} records of data.train are dev data.")
    return prepared


def _reuse(
    folder: Path, data: DataSpec, tokenizer: TokenizerSpec, taken: Fingerprint, say: Say
) -> Prepared | None:
    try:
        opened = folder.stat()
    except OSError:
        return None
    try:
        prepared = _open(folder, data, tokenizer, taken, reused=True)
    except DataError as error:
        say(f"{error} It is prepared again.")
        _retire(folder, opened)
        return _reuse(folder, data, tokenizer, taken, say) if folder.exists() else None
    _update(folder / fingerprint.FILE, taken)
    return prepared


def _retire(folder: Path, opened: os.stat_result) -> None:
    """Remove a damaged store, unless another process has put a new one in its place."""
    retired = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    with suppress(OSError):  # another process has removed it
        folder.rename(retired)
        stat = retired.stat()
        if (stat.st_ino, stat.st_mtime_ns) != (opened.st_ino, opened.st_mtime_ns):
            retired.rename(folder)
    shutil.rmtree(retired, ignore_errors=True)


def _update(path: Path, taken: Fingerprint) -> None:
    """Store new time stamps of files that have the same content."""
    with suppress(OSError, ValueError, OutputError):  # a read-only store can be reused too
        content = unseal(path.read_bytes())
        updated = {**content, **taken.to_plain()}
        if updated != content:
            write_atomic(path, seal(updated))


def _open(
    folder: Path, data: DataSpec, tokenizer: TokenizerSpec, taken: Fingerprint, reused: bool
) -> Prepared:
    try:
        content = unseal((folder / fingerprint.FILE).read_bytes())
        texts = {
            file: _read(folder / file, expected) for file, expected in content["checksums"].items()
        }
        new_paths = dict(zip(content["paths"], taken.paths, strict=True))
        stores = {
            split: _store(folder, split, _renamed(SplitStats.from_plain(stats), new_paths), data)
            for split, stats in content["splits"].items()
        }
        return Prepared(
            folder=folder,
            tokenizer=tokenizer.restore(texts["tokenizer.json"]),
            ledger=Ledger.from_json(texts["ledger.json"]).renamed(new_paths),
            train=stores["train"],
            dev=stores["dev"],
            test=stores.get("test"),
            languages=data.languages,
            labels=tuple(content["labels"]),
            language_id=LanguageIdentifier.from_json(texts["languages.json"]),
            unknown_rate=content["unknown_rate"],
            content=content["content"],
            reused=reused,
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, RunError) as error:
        raise DataError(f"{folder}: damaged ({error!r}).") from None
    except OSError as error:  # no memory, no permission: it says nothing about the content
        raise RunError(f"{folder}: cannot be read ({error.strerror or error}).") from None


def _read(path: Path, expected: str) -> str:
    data = path.read_bytes()
    if checksum(data) != expected:
        raise ValueError(f"the checksum of {path.name} is not that of its content")
    return data.decode("utf-8")


def _renamed(stats: SplitStats, new_paths: Mapping[str, str]) -> SplitStats:
    return replace(stats, files=tuple(new_paths.get(file, file) for file in stats.files))


def _store(folder: Path, split: str, stats: SplitStats, data: DataSpec) -> Store:
    """Open a split with the weights of the present recipe, which apply to training only."""
    sources = data.splits.get(split, data.train)
    firsts = accumulate(stats.rows[:-1], initial=0)
    sections = [
        Section(
            first,
            rows,
            tokens,
            source.weight if split == "train" else 1.0,
            source.language_pair,
            source.source_sides,
        )
        for first, rows, tokens, source in zip(
            firsts, stats.rows, stats.tokens, sources, strict=True
        )
    ]
    return Store(folder / f"{split}.arrow", stats, sections)


def _build(
    folder: Path,
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    special_tokens: Sequence[str],
    taken: Fingerprint,
    progress: Progress,
    length_limits: LengthLimits,
) -> None:
    """Build the folder, unless another process has built it in the meantime."""
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        _remove_stale(folder.parent)
        partial.mkdir(parents=True)
        with _locked(partial):
            metadata = build_splits(
                partial, data, tokenizer, limit, special_tokens, progress, length_limits
            )
            taken.check_unchanged()
            _describe(partial, tokenizer, taken, metadata)
            _publish(partial, folder)
    except OSError as error:
        raise OutputError(
            f"{folder.parent}: cannot be written ({error}); set data.prepared to another folder."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _describe(
    partial: Path, tokenizer: TokenizerSpec, taken: Fingerprint, metadata: Mapping[str, Any]
) -> None:
    """Write fingerprint.json."""
    files = ("tokenizer.json", "languages.json", "ledger.json")
    restored = tokenizer.restore((partial / "tokenizer.json").read_text("utf-8"))
    description = {
        **taken.to_plain(),
        **metadata,
        "paths": taken.paths,
        "checksums": {file: checksum((partial / file).read_bytes()) for file in files},
        "content": content_digest(partial, restored, metadata["labels"]),
    }
    (partial / fingerprint.FILE).write_bytes(seal(description))


def _publish(partial: Path, folder: Path) -> None:
    """Write everything to disk, then rename; if the folder exists, another process was faster."""
    for path in partial.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    fsync_folder(partial)
    try:
        partial.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    fsync_folder(folder.parent)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, which ends with the process, where the file system has locks."""
    if flock is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            flock(handle, LOCK_EX | LOCK_NB)
        yield
    finally:
        os.close(handle)


def _is_locked(path: Path) -> bool:
    """Return True if a living process holds the lock of a folder."""
    if flock is None:
        return False
    handle = os.open(path, os.O_RDONLY)
    try:
        flock(handle, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _remove_stale(prepared: Path) -> None:
    """Remove unfinished folders and files of processes that were killed.

    Another process may be removing them too, or may be allowed to read what this one may not.
    """
    for folder in (prepared, *_entries(prepared)):
        for partial in _entries(folder):
            if partial.name.startswith(".") and partial.name.endswith(".partial"):
                with suppress(OSError):
                    _remove_if_stale(partial)


def _remove_if_stale(partial: Path) -> None:
    newest = max(path.stat().st_mtime for path in (partial, *_entries(partial)))
    if time.time() - newest <= STALE or _is_locked(partial):
        return
    if partial.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
    else:
        partial.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    """Return the entries of a folder; none if it is no folder, or not any more."""
    with suppress(OSError):
        return list(folder.iterdir())
    return []
