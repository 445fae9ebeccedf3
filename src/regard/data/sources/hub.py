"""A dataset of the Hugging Face hub by its name, downloaded once, as Parquet, to a cache.

`GET /api/datasets/{name}/parquet` returns {subset: {split: [URL, …]}}. The list is stored first and
the files after it, each atomically, so that an interrupted download continues where it stopped and
a complete one needs no network.
"""

import json
import os
import secrets
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from pydantic import Field, TypeAdapter

from regard.atomic import write_atomic
from regard.data.datasets.folders import cache_folder
from regard.data.records import Line
from regard.data.sources.base import PairSpec
from regard.data.sources.parquet import read_parquet
from regard.errors import DataError, OutputError

BLOCK = 2**20  # bytes read at once
TIMEOUT = 60  # seconds without a byte

Listing = TypeAdapter(dict[str, dict[str, list[str]]])


class Spec(PairSpec):
    """{kind: hub, name: Helsinki-NLP/opus_books, subset: en-fr, columns: …, languages: …}"""

    name: str = Field(
        ..., pattern=r"^\w[\w.-]*(/\w[\w.-]*)?$", description="owner/dataset, as on the hub"
    )
    subset: str = Field(
        "default", pattern=r"^\w[\w.+-]*$", description="subset (configuration) of the dataset"
    )
    split: str = Field("train", pattern=r"^\w[\w.+-]*$", description="split of the dataset")
    columns: tuple[str, str] = Field(
        ..., description="column of each text; dots for nested columns"
    )

    def records(self) -> Iterator[Line]:
        for file in self.files():
            yield from read_parquet(file, self.columns)

    def files(self) -> list[Path]:
        """Download missing files and return all files in the cache."""
        folder = (
            cache_folder() / "datasets" / self.name.replace("/", "--") / self.subset / self.split
        )
        addresses = self._addresses(folder)
        files = [folder / f"{number:05}.parquet" for number in range(len(addresses))]
        for file, address in zip(files, addresses, strict=True):
            if not file.exists():
                _save(address, file)
        return files

    def _addresses(self, folder: Path) -> list[str]:
        known = folder / "urls.json"
        if not known.exists():
            addresses = self._request_addresses()
            _make(folder)
            write_atomic(known, json.dumps(addresses).encode())
        try:
            return TypeAdapter(list[str]).validate_json(known.read_bytes())
        except (OSError, ValueError):
            raise DataError(f"{known}: cannot be read; delete it to download it again.") from None

    def _request_addresses(self) -> list[str]:
        address = f"{_hub()}/api/datasets/{self.name}/parquet"
        try:
            subsets = Listing.validate_json(b"".join(_fetch(address)))
        except ValueError:
            raise DataError(
                f"{address}: the response is not a list of Parquet files; try again."
            ) from None
        for key, names in (("subset", subsets), ("split", subsets.get(self.subset, {}))):
            name = getattr(self, key)
            if name not in names:
                raise DataError(
                    f"{self.name}: there is no {key} '{name}' in this dataset; set {key} to one "
                    f"of: {', '.join(names)}."
                )
        return subsets[self.subset][self.split]


def _hub() -> str:
    return os.environ.get("REGARD_HUB", "https://huggingface.co").rstrip("/")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _save(address: str, path: Path) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(_fetch(address))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        partial.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{path}: cannot be written ({error.strerror}); set REGARD_CACHE to another folder."
    )


def _fetch(address: str) -> Iterator[bytes]:
    """Yield the content of an address in blocks; raises DataError if it is incomplete."""
    if not address.startswith(("https://", f"{_hub()}/")):
        raise DataError(f"{address}: the hub lists a file on another server; it is not downloaded.")
    try:
        with urlopen(address, timeout=TIMEOUT) as response:
            length = response.headers.get("Content-Length", "0")
            missing = int(length) if length.isdecimal() and len(length) < 20 else 0
            while block := response.read(BLOCK):
                missing -= len(block)
                yield block
            if missing > 0:
                raise DataError(f"{address}: truncated, {missing:,} bytes are missing; try again.")
    except HTTPError as error:
        error.close()
        raise DataError(
            f"{address}: the hub returns {error.code} ({error.reason}); check the name, and that "
            f"the dataset is public."
        ) from None
    except (OSError, HTTPException, ValueError) as error:  # ValueError: of a malformed address
        raise DataError(
            f"{address}: cannot be reached ({getattr(error, 'reason', error)}); without a network, "
            f"give a folder of the dataset's Parquet files with kind: parquet instead."
        ) from None
