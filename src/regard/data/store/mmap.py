"""An Arrow file as a memory map whose pages can be given back.

Pages that were read through the map count as this process's memory until the system takes them
away. `release` gives them back at once, so that reading a file of any size stays small.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from regard.errors import DataError


class MappedFile:
    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.whole = pa.py_buffer(self._map)
            self._reader = pa.ipc.open_file(pa.BufferReader(self.whole))
        except (OSError, ValueError) as error:  # Arrow's errors are both
            raise DataError(f"{path}: damaged, it cannot be read ({error}).") from None

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def __len__(self) -> int:
        return int(self._reader.num_record_batches)

    def __getitem__(self, number: int) -> pa.RecordBatch:
        """A record batch, without a copy."""
        return self._reader.get_batch(number)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The record batches one after the other, each given back before the next."""
        for number in range(len(self)):
            yield self[number]
            self.release()

    def release(self) -> None:
        """Give back all pages; one that is looked at again comes from the system's cache."""
        if hasattr(mmap, "MADV_DONTNEED"):  # Windows has none, and trims unused pages by itself
            self._map.madvise(mmap.MADV_DONTNEED)
