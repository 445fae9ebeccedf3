"""Fingerprint of a token store: everything that determines its content.

A store is rebuilt when its fingerprint has changed, and only then. A file is identified by the hash
of its content, wherever it is. Its content is not read again where inode, size and the times of
modification and of change (which no program can set) are those of the last time, so that a start
does not read gigabytes.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers

from regard.config import plain
from regard.data.config import DataSpec
from regard.data.records import SEPARATE, LengthLimits
from regard.data.sources.base import SourceSpec
from regard.data.sources.paths import require_file
from regard.data.store.checksums import unseal
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError

FORMAT = 5  # raise it when the same text is to give another store
FILE = "fingerprint.json"
SETTLED = 2e9  # nanoseconds: a file changed more recently may change again within its time stamp


@dataclass(frozen=True)
class FileState:
    """A file at the time it was read."""

    path: str
    inode: int
    size: int
    modified: int  # nanoseconds
    changed: int  # nanoseconds; of content, name or attributes
    settled: bool  # True if the last change was long enough ago to trust the time stamps
    blake2b: str

    def matches(self, stat: os.stat_result) -> bool:
        """Return True if the file is still the same one, with the same size and times."""
        times = (stat.st_mtime_ns, stat.st_ctime_ns)
        return (self.inode, self.size, self.modified, self.changed) == (
            stat.st_ino,
            stat.st_size,
            *times,
        )

    def has_same_content(self) -> bool:
        """Return True if the file exists with the same content, which is read if it must be."""
        try:
            path = Path(self.path)
            return self.matches(path.stat()) or _hash(path) == self.blake2b
        except OSError:
            return False


@dataclass(frozen=True)
class Fingerprint:
    """Settings and files that a store is built from."""

    settings: Mapping[str, Any]  # with the hashes of files and without their paths
    files: tuple[FileState, ...]
    paths: tuple[str, ...]  # in the order in which files are read, repeated if read repeatedly

    @property
    def key(self) -> str:
        """Name of the store's folder; differs if settings or the content of files differ."""
        text = json.dumps(self.settings)  # in order: that of labels is the order of their files
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def check_unchanged(self) -> None:
        """Raise DataError if a file has other content than when its state was taken."""
        for file in self.files:
            if not file.has_same_content():
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
    states = {path: _file_state(path, known) for path in dict.fromkeys(paths)}
    settings = {
        "format": FORMAT,
        "tokenizers": tokenizers.__version__,
        "data": _data_settings(data, states),
        "tokenizer": _settings(tokenizer, states),
        "special_tokens": list(special_tokens),
        "limit": None if data.record_type == "text" else limit,
        "length_limits": asdict(length_limits),
    }
    return Fingerprint(settings, tuple(states.values()), tuple(map(str, paths)))


def _data_settings(data: DataSpec, states: Mapping[Path, FileState]) -> dict[str, Any]:
    """Return the settings of the data without those that apply after the store is built."""
    filters = plain(data.filters)
    del filters["max_dropped"]
    excluded = {} if data.exclude is None else {"exclude": data.exclude}
    sources = {
        split: [_source_settings(source, states) for source in sources]
        for split, sources in {**data.splits, **excluded}.items()
    }
    settings = {**sources, "dev_size": data.dev_size, "filters": filters}
    if len(set(data.source_directions)) > 1:  # a pair of two sources is then not always a duplicate
        settings["directions"] = [
            [str(direction) for direction in directions] for directions in data.source_directions
        ]
    return settings


def _source_settings(source: SourceSpec, states: Mapping[Path, FileState]) -> dict[str, Any]:
    settings = {**_settings(source, states), "version": source.version}
    for key in ("weight", "directions"):  # they apply to the stored records
        settings.pop(key, None)
    return settings


def _settings(spec: SourceSpec | TokenizerSpec, states: Mapping[Path, FileState]) -> dict[str, Any]:
    """Return settings with the hashes of all files, and for each path its number of files."""
    files = spec.files()

    def count(path: Path) -> int:
        return sum(file.is_relative_to(path) for file in files)

    return {
        **plain(spec, count, as_written=False),
        "files": [states[file].blake2b for file in files],
    }


def _known_files(prepared: Path) -> Iterator[FileState]:
    """Yield the files of all stores in the folder."""
    for path in sorted(prepared.glob(f"*/{FILE}")):
        try:
            yield from (FileState(**file) for file in unseal(path.read_bytes())["files"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # a damaged or older store; an error is raised where it is needed


def _file_state(path: Path, known: Iterable[FileState]) -> FileState:
    try:
        require_file(path)
        stat, now = path.stat(), time.time_ns()
        if not path.is_file():
            raise DataError(f"{path}: is not a file; name a file with text.")
        for file in known:
            if file.path == str(path) and file.settled and file.matches(stat):
                return file
        content = _hash(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        detail = getattr(error, "strerror", None) or error
        name = str(path).replace("\0", "\\0")
        raise DataError(f"{name}: cannot be read ({detail}).") from None
    settled = now - max(stat.st_mtime_ns, stat.st_ctime_ns) > SETTLED
    return FileState(
        str(path),
        stat.st_ino,
        stat.st_size,
        stat.st_mtime_ns,
        stat.st_ctime_ns,
        settled,
        content,
    )


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
