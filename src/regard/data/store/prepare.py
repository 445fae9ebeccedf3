"""From sources to token stores in constant memory: however long the text, some thousand records
are in memory at a time.

    prepared/<key>/
      train.arrow, dev.arrow, test.arrow   the parts, as ids
      tokenizer.json                       text ⇄ ids
      languages.json                       which pieces are whose
      ledger.json                          what became of every line
      fingerprint.json                     what all this was made of, and how large it came out

The key is that of the fingerprint, so that what is there already is used again. The folder is made
beside its place and renamed into it: it is whole or not there, and of two processes that prepare
the same thing at once, the later one takes what the earlier one made.
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
from regard.data.store.fingerprint import Fingerprint
from regard.data.store.store import Section, SplitStats, Store
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.language_id import LanguageIdentifier
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError, OutputError, RunError

STALE = 24 * 3600  # seconds without a sign of life, after which a half-made folder is swept away

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """Data that is ready to be trained on."""

    folder: Path
    tokenizer: Tokenizer
    ledger: Ledger
    train: Store
    dev: Store
    test: Store | None
    languages: tuple[str, ...]
    labels: tuple[str, ...]
    language_id: LanguageIdentifier
    unknown: float  # share of the training tokens that stand for what has no piece
    reused: bool

    @property
    def final_split(self) -> tuple[str, Store]:
        """What a finished model is judged on, and its name: test, or dev where there is none."""
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
    """The stores of the data, made now unless they are there; `limit` is the model's, in tokens.

    `special_tokens` are pieces that the tokeniser needs besides: mask for <mask>.
    """
    taken = fingerprint.take(data, tokenizer, limit, special_tokens, length_limits)
    folder = data.prepared / taken.key
    prepared = _reuse(folder, data, tokenizer, taken, say)
    if prepared is None:
        _make(folder, data, tokenizer, limit, special_tokens, taken, progress, length_limits)
        prepared = _open(folder, data, tokenizer, reused=False)
    prepared.ledger.enforce(data.filters.max_dropped)
    if data.dev is None:
        say(f"No data.dev is given: {len(prepared.dev):,} records of data.train are held out.")
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
    marked = {**content, **taken.to_plain()}
    if marked != content:  # files were touched and found equal: not to be read again next time
        with suppress(OutputError):  # what cannot be written is good to be read all the same
            write_atomic(path, json.dumps(marked, indent=2).encode())
    return prepared


def _open(folder: Path, data: DataSpec, tokenizer: TokenizerSpec, reused: bool) -> Prepared:
    def read(file: str) -> str:
        return (folder / file).read_text("utf-8")

    try:
        content = json.loads(read(fingerprint.FILE))
        stores = {
            part: _store(folder, part, SplitStats.from_plain(facts), data)
            for part, facts in content["parts"].items()
        }
        return Prepared(
            folder=folder,
            tokenizer=tokenizer.opened(read("tokenizer.json")),
            ledger=Ledger.from_json(read("ledger.json")),
            train=stores["train"],
            dev=stores["dev"],
            test=stores.get("test"),
            languages=data.languages,
            labels=tuple(content["labels"]),
            language_id=LanguageIdentifier.from_json(read("languages.json")),
            unknown=content["unknown"],
            reused=reused,
        )
    except (OSError, ValueError, KeyError, TypeError, RunError) as error:
        raise DataError(f"{folder}: damaged ({error!r}).") from None


def _store(folder: Path, part: str, facts: SplitStats, data: DataSpec) -> Store:
    """Weights are those that the recipe gives now, and only training heeds them."""
    sources = data.splits.get(part, data.train)
    firsts = accumulate(facts.rows[:-1], initial=0)
    sections = [
        Section(
            first, rows, tokens, source.weight if part == "train" else 1.0, source.language_pair
        )
        for first, rows, tokens, source in zip(
            firsts, facts.rows, facts.tokens, sources, strict=True
        )
    ]
    return Store(folder / f"{part}.arrow", facts, sections)


def _make(
    folder: Path,
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    special_tokens: Sequence[str],
    taken: Fingerprint,
    progress: Progress,
    length_limits: LengthLimits,
) -> None:
    """Make the folder, or find in the end that somebody else has just made it."""
    partial = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    try:
        _sweep(folder.parent)
        partial.mkdir(parents=True)
        found = build_splits(
            partial, data, tokenizer, limit, special_tokens, progress, length_limits
        )
        taken.check_unchanged()
        vouching = json.dumps({**taken.to_plain(), **found}, indent=2)
        (partial / fingerprint.FILE).write_text(vouching, "utf-8")
        _publish(partial, folder)
    except OSError as error:
        raise OutputError(
            f"{folder.parent}: cannot be written ({error}); set data.prepared to another folder."
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _publish(partial: Path, folder: Path) -> None:
    """All is on the disk before it takes its place; if that is taken, somebody was faster."""
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


def _sweep(prepared: Path) -> None:
    """Take away what a process left behind that was killed while it prepared."""
    for partial in prepared.glob(".*.partial"):
        signs = [path.stat().st_mtime for path in (partial, *partial.glob("*"))]
        if time.time() - max(signs) > STALE:
            shutil.rmtree(partial, ignore_errors=True)
