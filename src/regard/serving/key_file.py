"""API keys of a server: a file with a name and the hash of its key on each line.

A key is 256 random bits, so that one SHA-256 protects it: there is no list of likely keys to try,
which is why passwords need a salt and a slow hash. The key itself is shown once and stored nowhere.
"""

import hashlib
import logging
import re
import secrets
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path

from regard.atomic import write_atomic
from regard.errors import ConfigError, DataError

logger = logging.getLogger(__name__)

PREFIX = "regard_"  # lets scanners of leaked secrets recognize a key
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
LINE = re.compile(rf"({NAME.pattern}) ([0-9a-f]{{64}})")
HEAD = "# API keys of `regard serve --keys`: name, SHA-256 of the key. Remove a line to revoke it."
MAX_FILE = 2**22  # bytes


@dataclass(frozen=True)
class Keys:
    """Hashes of keys by the names of their owners."""

    hashes: dict[str, bytes]

    def owner(self, key: str) -> str | None:
        """Return the name that a key belongs to; all are compared, each in constant time."""
        digest = _hash(key)
        names = [name for name, own in self.hashes.items() if compare_digest(own, digest)]
        return names[0] if names else None


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def read_keys(path: Path) -> Keys:
    """Return the keys of a file.

    Raises:
        DataError: The file cannot be read, or a line is no key.
    """
    hashes: dict[str, bytes] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise DataError(f"{path}:{number}: no name and hash of a key; remove the line.")
        if match[1] in hashes:
            raise DataError(f"{path}:{number}: the name {match[1]} occurs twice; remove a line.")
        hashes[match[1]] = bytes.fromhex(match[2])
    return Keys(hashes)


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise DataError(f"{path}: the file has more than {MAX_FILE:,} bytes; give another.")
        return data.decode().splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); give another file.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: no file of keys; make one with `regard keys add`.") from None


def add_key(path: Path, name: str) -> str:
    """Add a new key to a file, which is made if there is none, and return the key.

    Raises:
        ConfigError: The name is invalid, or has a key already.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"{name}: give a name of at most 64 letters, digits, '.', '_', '@', '-'.")
    keys = read_keys(path) if path.exists() else Keys({})
    if name in keys.hashes:
        raise ConfigError(f"{path}: {name} has a key already; remove it, or choose another name.")
    key = PREFIX + secrets.token_urlsafe(32)
    _write(path, [*_entries(path), f"{name} {_hash(key).hex()}"])
    return key


def remove_key(path: Path, name: str) -> None:
    """Remove the key of a name from a file: servers refuse it from their next request on.

    Raises:
        ConfigError: There is no such name.
    """
    if name not in read_keys(path).hashes:
        raise ConfigError(f"{path}: there is no key of {name}; `regard keys list` shows the names.")
    _write(path, [line for line in _entries(path) if line.split()[:1] != [name]])


def _entries(path: Path) -> list[str]:
    """Return the lines of a file, comments of its owner among them."""
    return _lines(path) if path.exists() else [HEAD]


def _write(path: Path, lines: list[str]) -> None:
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())


class KeyFile:
    """Keys of a file that is read again whenever it changes.

    A file that is gone or damaged changes nothing: the keys read last stay valid.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = self._current_version()
        self._keys = read_keys(path)

    def owner(self, key: str) -> str | None:
        """Return the name that a key belongs to, or None for a key that is not in the file."""
        return self._current().owner(key)

    def _current(self) -> Keys:
        version = self._current_version()
        if version != self._version:
            self._version = version
            try:
                self._keys = read_keys(self._path)
            except DataError as error:
                logger.warning("%s The keys read before stay valid.", error)
        return self._keys

    def _current_version(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns
