"""Download one file of a data set: resumed where it was cut, checked, and renamed into place.

The bytes are collected in `.NAME.partial` beside the file, which is kept when the connection ends,
so that the next attempt asks for the rest only. The checksum is that of the unpacked text: a file
that is served plain is stored as gzip where the catalog says so, and the other way round. Nothing
appears under the final name before it is complete and checked.

A file that is pasted from several has a partial file for each, `.NAME.1.partial` and so on.
"""

import errno
import gzip
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from http.client import HTTPException, HTTPMessage
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from regard.atomic import fsync_folder
from regard.data.datasets.catalog import DataFile, is_safe
from regard.data.datasets.reports import Reports
from regard.errors import OutputError

BLOCK = 2**18  # bytes read at once
TIMEOUT = 60  # seconds without a byte
ATTEMPTS = 5  # connections without a new byte, before it is given up
PAUSE = 1.0  # seconds before the next one
BUSY = (429, 500, 502, 503, 504)  # answers of a server that may do better later
SLACK = 1.1  # a download may be larger than declared by this factor: gzip of a short text is
GZIP = b"\x1f\x8b"
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)


class UnreachableError(Exception):
    """Carries why an address cannot be downloaded."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"{address} cannot be downloaded ({why})")


class _CutError(Exception):
    """Carries why a connection ended before the file did."""


def download(file: DataFile, path: Path, reports: Reports) -> None:
    """Download a file that the catalog has an address for.

    Raises UnreachableError where the addresses do not give the file, and OutputError where it
    cannot be written.
    """
    whole = path.with_name(f".{path.name}.partial")
    parts = {whole: file.url} if file.url else _parts_to_paste(file, path)
    with _writing(path, [whole, *parts]):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(part for part in parts if _size(part) > SLACK * file.bytes)
        resumed = any(part.exists() for part in parts)
        fault = _collect(file, parts, whole, reports)
        if fault and resumed:  # a part was of another file, or damaged
            _remove(parts)
            fault = _collect(file, parts, whole, reports)
        if fault:
            _remove([whole, *parts])
            raise UnreachableError(" and ".join(file.addresses), fault)
        _publish(whole, path)
        _remove(parts)


def _parts_to_paste(file: DataFile, path: Path) -> dict[Path, str]:
    """Return where the files that are pasted are collected, and their addresses."""
    return {
        path.with_name(f".{path.name}.{number}.partial"): url
        for number, url in enumerate(file.paste, start=1)
    }


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _collect(file: DataFile, parts: dict[Path, str], whole: Path, reports: Reports) -> str:
    """Download the parts into the whole file; return what is wrong with it, "" if it is right."""
    for part, url in parts.items():
        _transfer(file, url, part, reports)
    try:
        if file.paste and not _paste(parts, whole, file.bytes):
            return "they have different numbers of lines"
    except DAMAGED:
        return "one of them is a damaged gzip"
    digest = checksum(whole, file.bytes)
    if digest in file.sha256:
        return ""
    has = "pasted, they have" if file.paste else "it has"
    return f"{has} another checksum than the catalog, {digest}"


def _lines(content: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yield the lines without their ends; what is longer than `limit` is cut, not read at once."""
    while line := content.readline(limit):
        yield line.rstrip(b"\r\n")


def _paste(parts: Iterable[Path], whole: Path, limit: int) -> bool:
    """Write the lines of several files, joined with tabs, and no more than the checksum reads.

    Returns whether the files have equally many lines.
    """
    with ExitStack() as stack, whole.open("wb") as output:
        files = [stack.enter_context(_unpacked(part)) for part in parts]
        for row in zip_longest(*(_lines(file, limit) for file in files)):
            if None in row:
                return False
            output.write(b"\t".join(row) + b"\n")
            if output.tell() > SLACK * limit:
                break
    return True


class _FileVersion(NamedTuple):
    """A file as long as it does not change."""

    path: Path
    inode: int
    size: int
    modified: int


def checksum(path: Path, limit: int) -> str:
    """Return the SHA-256 of the text in a file, unpacked, of about `limit` bytes at most."""
    stat = path.stat()
    try:
        version = _FileVersion(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        return _checksum_once(version, limit)
    except DAMAGED:
        return "damaged gzip"


@lru_cache(maxsize=1024)
def _checksum_once(file: _FileVersion, limit: int) -> str:
    digest, length = hashlib.sha256(), 0
    with _unpacked(file.path) as content:
        while block := content.read(BLOCK):
            digest.update(block)
            length += len(block)
            if length > SLACK * limit:
                return f"more than {limit:,} bytes"
    return digest.hexdigest()


def _transfer(file: DataFile, url: str, partial: Path, reports: Reports) -> None:
    """Collect the bytes of an address in `partial`, over as many connections as it takes."""
    attempts = 0
    while True:
        before = _size(partial)
        try:
            return _receive(file, url, partial, reports)
        except _CutError as error:
            attempts = attempts + 1 if _size(partial) <= before else 0
            if attempts == ATTEMPTS:
                raise UnreachableError(url, str(error)) from None
        time.sleep(PAUSE * attempts)


def _receive(file: DataFile, url: str, partial: Path, reports: Reports) -> None:
    """Receive what one connection gives, after the bytes that are there already."""
    done = _size(partial)
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    request = Request(url, headers={**headers, "Range": f"bytes={done}-"} if done else headers)
    try:
        response = build_opener(_SafeRedirects).open(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code == 416:  # there is no rest: the file is complete, or another one
            return
        if error.code in BUSY:
            raise _CutError(f"the server returns {error.code} ({error.reason})") from None
        raise UnreachableError(url, f"the server returns {error.code} ({error.reason})") from None
    except (OSError, HTTPException, ValueError) as error:
        raise UnreachableError(url, str(getattr(error, "reason", error))) from None
    with response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            done = 0  # the server sends the whole file
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() and len(length) < 20 else None
        blocks = _blocks(response, url, total, done, file.bytes)
        with (
            partial.open("ab" if done else "wb") as output,
            reports.bar(f"Downloading {file.path}", total and total // 1000, "kB") as add,
        ):
            add(done // 1000)
            for block in blocks:
                output.write(block)
                add((done + len(block)) // 1000 - done // 1000)
                done += len(block)


def _blocks(response: Any, url: str, total: int | None, done: int, limit: int) -> Iterator[bytes]:
    """Yield what a server sends; raises an error if it is cut, or more than the catalog says."""
    while True:
        try:
            block: bytes = response.read(BLOCK)
        except (OSError, HTTPException) as error:
            raise _CutError(f"the connection was cut ({error})") from None
        done += len(block)
        if done > SLACK * limit + BLOCK:
            raise UnreachableError(url, f"it is larger than the {limit:,} bytes of the catalog")
        if not block:
            break
        yield block
    if total is not None and done < total:
        raise _CutError(f"the connection was cut after {done:,} of {total:,} bytes")


def _publish(partial: Path, path: Path) -> None:
    """Pack or unpack a checked file as its name asks, write it to disk, and rename it."""
    packed = partial.with_name(f"{partial.name}.2")
    try:
        if _is_gzip(partial) != (path.suffix == ".gz"):
            with _unpacked(partial) as content, packed.open("wb") as output:
                if path.suffix == ".gz":
                    with gzip.GzipFile("", "wb", fileobj=output, mtime=0) as compressed:
                        shutil.copyfileobj(content, compressed, BLOCK)
                else:
                    shutil.copyfileobj(content, output, BLOCK)
            packed.replace(partial)
    finally:
        packed.unlink(missing_ok=True)
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(path)
    fsync_folder(path.parent)


@contextmanager
def _writing(path: Path, unfinished: Iterable[Path]) -> Iterator[None]:
    """Raise OutputError where a file cannot be written; without space, nothing is left of it."""
    try:
        yield
    except OSError as error:
        space = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _remove(unfinished)
            space = "free some space, or "
        raise OutputError(
            f"{path}: cannot be written ({error.strerror}); {space}set REGARD_CACHE to another "
            f"folder."
        ) from None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(GZIP)) == GZIP


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed if it is gzip."""
    with gzip.open(path) if _is_gzip(path) else path.open("rb") as content:
        yield cast("IO[bytes]", content)


class _SafeRedirects(HTTPRedirectHandler):
    """Follows redirects, but not to an address without encryption."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the request of the new address; raises ValueError if it is not safe."""
        if not is_safe(newurl):
            fp.close()
            raise ValueError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
