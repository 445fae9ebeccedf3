"""Prepare data: from sources to a token store, in constant memory.

    prepared/<key>/
      train.arrow, dev.arrow, test.arrow   the splits, as ids
      tokenizer.json                       text ⇄ ids
      languages.json                       token counts by language, for language identification
      ledger.json                          what became of every line
      fingerprint.json                     settings, files and sizes of the store

The key is that of the fingerprint, so that an existing store is reused. The folder is built under
another name and then renamed: it is complete or does not exist. If two processes prepare the same
data at once, the later one uses the folder of the earlier one.
"""

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from regard.atomic import fsync_folder, write_atomic
from regard.data.config import DataSpec
from regard.data.ledger import Ledger
from regard.data.records import SEPARATE, LengthLimits
from regard.data.store import fingerprint
from regard.data.store.build import Progress, build_splits
from regard.data.store.fingerprint import Fingerprint, take_fingerprint
from regard.data.store.store import Section, SplitStats, Store
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError, OutputError, RunError

STALE = 24 * 3600  # seconds without a change, after which an unfinished folder is removed

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
    reused: bool

    @property
    def final_split(self) -> tuple[str, Store]:
        """Name and store of the split for the final evaluation: test, or dev without a test."""
        return ("dev", self.dev) if self.test is None else ("test", self.test)


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
    taken = take_fingerprint(data, tokenizer, limit, special_tokens, length_limits)
    folder = data.prepared / taken.key
    prepared = _reuse(folder, data, tokenizer, taken, say)
    if prepared is None:
        _build(folder, data, tokenizer, limit, special_tokens, taken, progress, length_limits)
        prepared = _open(folder, data, tokenizer, reused=False)
    prepared.ledger.enforce(data.filters.max_dropped)
    if data.dev is None:
        say(f"There is no data.dev: {len(prepared.dev):,} records of data.train are dev data.")
    return prepared


def _reuse(
    folder: Path, data: DataSpec, tokenizer: TokenizerSpec, taken: Fingerprint, say: Say
) -> Prepared | None:
    if not folder.exists():
        return None
    try:
        prepared = _open(folder, data, tokenizer, reused=True)
    except DataError as error:
        say(f"{error} It is prepared again.")
        shutil.rmtree(folder, ignore_errors=True)
        return None
    path = folder / fingerprint.FILE
    content = json.loads(path.read_text("utf-8"))
    updated = {**content, **taken.to_plain()}
    if updated != content:  # files have new time stamps and the same content: store these
        with suppress(OutputError):  # a read-only store can be reused too
            write_atomic(path, json.dumps(updated, indent=2).encode())
    return prepared


def _open(folder: Path, data: DataSpec, tokenizer: TokenizerSpec, reused: bool) -> Prepared:
    def read(file: str) -> str:
        return (folder / file).read_text("utf-8")

    try:
        content = json.loads(read(fingerprint.FILE))
        stores = {
            split: _store(folder, split, SplitStats.from_plain(stats), data)
            for split, stats in content["splits"].items()
        }
        return Prepared(
            folder=folder,
            tokenizer=tokenizer.restore(read("tokenizer.json")),
            ledger=Ledger.from_json(read("ledger.json")),
            train=stores["train"],
            dev=stores["dev"],
            test=stores.get("test"),
            languages=data.languages,
            labels=tuple(content["labels"]),
            language_id=LanguageIdentifier.from_json(read("languages.json")),
            unknown_rate=content["unknown_rate"],
            reused=reused,
        )
    except (OSError, ValueError, KeyError, TypeError, RunError) as error:
        raise DataError(f"{folder}: damaged ({error!r}).") from None


def _store(folder: Path, split: str, stats: SplitStats, data: DataSpec) -> Store:
    """Open a split with the weights of the present recipe, which apply to training only."""
    sources = data.splits.get(split, data.train)
    firsts = accumulate(stats.rows[:-1], initial=0)
    sections = [
        Section(
            first, rows, tokens, source.weight if split == "train" else 1.0, source.language_pair
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
        metadata = build_splits(
            partial, data, tokenizer, limit, special_tokens, progress, length_limits
        )
        taken.check_unchanged()
        content = json.dumps({**taken.to_plain(), **metadata}, indent=2)
        (partial / fingerprint.FILE).write_text(content, "utf-8")
        _publish(partial, folder)
    except OSError as error:
        raise OutputError(
            f"{folder.parent}: cannot be written ({error}); set data.prepared to another folder."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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


def _remove_stale(prepared: Path) -> None:
    """Remove unfinished folders of processes that were killed."""
    for partial in prepared.glob(".*.partial"):
        times = [path.stat().st_mtime for path in (partial, *partial.glob("*"))]
        if time.time() - max(times) > STALE:
            shutil.rmtree(partial, ignore_errors=True)
