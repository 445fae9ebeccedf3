"""Everything that shapes a token store: it is made anew when any of it has changed, and only then.

A file is known by its content. To read gigabytes at each start, only to find that nothing has
changed, would be a waste: where size and time of change are those of last time, so is the content.
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

FORMAT = 4  # to be raised when the same text is to become another store
FILE = "fingerprint.json"
SETTLED = 2e9  # nanoseconds: a file changed just now may change again and its time not show it


@dataclass(frozen=True)
class Mark:
    """A file as it was read."""

    path: str
    size: int
    changed: int  # nanoseconds
    settled: bool  # had it been left alone for a while?
    blake2b: str

    def fits(self, path: Path) -> bool:
        """Are the size and the time of the file those of the mark?"""
        found = path.stat()
        return (self.size, self.changed) == (found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Fingerprint:
    """What a store is made by, and the files that it is made of."""

    made_by: Mapping[str, Any]
    marks: tuple[Mark, ...]

    @property
    def key(self) -> str:
        """Another key, another store."""
        files = [(mark.path, mark.blake2b) for mark in self.marks]
        text = json.dumps({**self.made_by, "files": files}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def check_unchanged(self) -> None:
        """What was read must be what was marked."""
        for mark in self.marks:
            if not mark.fits(Path(mark.path)):
                raise DataError(f"{mark.path}: changed while it was being read; start again.")

    def to_plain(self) -> dict[str, Any]:
        return {**self.made_by, "files": [asdict(mark) for mark in self.marks]}


def take(
    data: DataSpec,
    tokenizer: TokenizerSpec,
    limit: int,
    special_tokens: Sequence[str] = (),
    length_limits: LengthLimits = SEPARATE,
) -> Fingerprint:
    """Of the store that would be made now."""
    sources = [source for part in (*data.splits.values(), data.exclude or ()) for source in part]
    files = [file for source in sources for file in source.files()] + tokenizer.files()
    known = list(_known(data.prepared))
    made_by = {
        "format": FORMAT,
        "regard": version("regard"),  # with it comes the bundled grammar
        "tokenizers": tokenizers.__version__,
        "data": _that_shapes(data),
        "tokenizer": plain(tokenizer),
        "special_tokens": list(special_tokens),
        "limit": None if data.record_type == "text" else limit,
        "length_limits": asdict(length_limits),
    }
    return Fingerprint(made_by, tuple(_mark(file, known) for file in dict.fromkeys(files)))


def _that_shapes(data: DataSpec) -> dict[str, Any]:
    """The settings of the data, but those that are heeded when the store is there."""
    content: dict[str, Any] = plain(data)
    del content["directions"], content["prepared"], content["filters"]["max_dropped"]
    if data.exclude is None:
        del content["exclude"]
    for part in (*data.splits, *(["exclude"] if data.exclude else [])):
        for source in content[part]:
            del source["weight"]
    return content


def _known(prepared: Path) -> Iterator[Mark]:
    """The files of which any store in the folder was made."""
    for path in sorted(prepared.glob(f"*/{FILE}")):
        try:
            yield from (Mark(**mark) for mark in json.loads(path.read_text("utf-8"))["files"])
        except (OSError, ValueError, TypeError, KeyError):
            continue  # that store is of no use to anybody, and whoever needs it will be told


def _mark(path: Path, known: Iterable[Mark]) -> Mark:
    try:
        for mark in known:
            if mark.path == str(path) and mark.settled and mark.fits(path):
                return mark
        found, now = path.stat(), time.time_ns()
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    settled = now - found.st_mtime_ns > SETTLED
    return Mark(str(path), found.st_size, found.st_mtime_ns, settled, content)
