"""Fingerprint of a token store: everything that determines its content.

A store is rebuilt when its fingerprint has changed, and only then. A file is identified by the hash
of its content. Its content is not read again where size and modification time are unchanged, so
that a start does not read gigabytes.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers

from regard.config import plain
from regard.data.config import DataSpec
from regard.data.records import SEPARATE, LengthLimits
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError

FORMAT = 4  # raise it when the same text is to give another store
FILE = "fingerprint.json"
SETTLED = 2e9  # nanoseconds: a file changed more recently may change again within its time stamp


@dataclass(frozen=True)
class FileState:
    """A file at the time it was read."""

    path: str
    size: int
    modified: int  # nanoseconds
    settled: bool  # True if the last change was long enough ago to trust the time stamp
    blake2b: str

    def matches(self, path: Path) -> bool:
        """Return True if the file still has this size and modification time."""
        stat = path.stat()
        return (self.size, self.modified) == (stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class Fingerprint:
    """Settings and files that a store is built from."""

    settings: Mapping[str, Any]
    files: tuple[FileState, ...]

    @property
    def key(self) -> str:
        """Name of the store's folder; differs if settings or the content of files differ."""
        files = [(file.path, file.blake2b) for file in self.files]
        text = json.dumps({**self.settings, "files": files}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def check_unchanged(self) -> None:
        """Raise DataError if a file was changed since its state was taken."""
        for file in self.files:
            if not file.matches(Path(file.path)):
                raise DataError(f"{file.path}: changed while it was being read; start again.")

    def to_plain(self) -> dict[str, Any]:
        """Return the content for fingerprint.json."""
        return {**self.settings, "files": [asdict(file) for file in self.files]}


def take_fingerprint(
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    special_tokens: Sequence[str] = (),
    length_limits: LengthLimits = SEPARATE,
) -> Fingerprint:
    """Return the fingerprint of the store that these settings and files give now."""
    splits = (*data.splits.values(), data.exclude or ())
    sources = [source for sources in splits for source in sources]
    paths = [file for source in sources for file in source.files()] + tokenizer.files()
    known = list(_known_files(data.prepared))
    settings = {
        "format": FORMAT,
        "regard": version("regard"),  # the bundled grammar changes with it
        "tokenizers": tokenizers.__version__,
        "data": _data_settings(data),
        "tokenizer": plain(tokenizer),
        "special_tokens": list(special_tokens),
        "limit": None if data.record_type == "text" else limit,
        "length_limits": asdict(length_limits),
    }
    files = tuple(_file_state(path, known) for path in dict.fromkeys(paths))
    return Fingerprint(settings, files)


def _data_settings(data: DataSpec) -> dict[str, Any]:
    """Return the settings of the data without those that apply after the store is built."""
    content: dict[str, Any] = plain(data)
    del content["directions"], content["prepared"], content["filters"]["max_dropped"]
    if data.exclude is None:
        del content["exclude"]
    for split in (*data.splits, *(["exclude"] if data.exclude else [])):
        for source in content[split]:
            del source["weight"]
    return content


def _known_files(prepared: Path) -> Iterator[FileState]:
    """Yield the files of all stores in the folder."""
    for path in sorted(prepared.glob(f"*/{FILE}")):
        try:
            yield from (FileState(**file) for file in json.loads(path.read_text("utf-8"))["files"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # a damaged or older store; an error is raised where it is needed


def _file_state(path: Path, known: Iterable[FileState]) -> FileState:
    try:
        for file in known:
            if file.path == str(path) and file.settled and file.matches(path):
                return file
        stat, now = path.stat(), time.time_ns()
        with path.open("rb") as opened:
            content = hashlib.file_digest(opened, "blake2b").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    settled = now - stat.st_mtime_ns > SETTLED
    return FileState(str(path), stat.st_size, stat.st_mtime_ns, settled, content)
