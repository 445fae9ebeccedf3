"""An Arrow file as a memory map whose pages can be released.

Pages that were read through the map count as memory of this process until the system reclaims
them. `release` returns them at once, so that reading a file of any size needs little memory.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from regard.data.store.checksums import checksum
from regard.errors import DataError

RELEASED = 2**24  # bytes after which the pages of a sequential read are released


class MappedFile:
    """A memory-mapped Arrow file, read by record batch."""

    def __init__(self, path: Path, expected: str | None = None) -> None:
        """Map the file; raises DataError where it is damaged or `expected` is not its checksum."""
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if expected not in (None, self.checksum()):
                raise ValueError("its checksum is not that of its content")
            self.buffer = pa.py_buffer(self._map)
            self._reader = pa.ipc.open_file(pa.BufferReader(self.buffer))
        except (OSError, ValueError) as error:  # Arrow's errors are both
            raise DataError(f"{path}: damaged, it cannot be read ({error}).") from None

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the file."""
        return self._reader.schema

    def __len__(self) -> int:
        return int(self._reader.num_record_batches)

    def __getitem__(self, number: int) -> pa.RecordBatch:
        """Return a record batch without a copy."""
        return self._reader.get_batch(number)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the record batches, releasing each before the next."""
        for number in range(len(self)):
            yield self[number]
            self.release()

    def checksum(self) -> str:
        """Return the checksum of the file, read in constant memory."""

        def release(end: int) -> None:
            if end % RELEASED == 0:
                self.release()

        with memoryview(self._map) as view:
            value = checksum(view, release)
        self.release()
        return value

    def release(self) -> None:
        """Release all pages; a page that is read again comes from the system's cache."""
        if hasattr(mmap, "MADV_DONTNEED"):  # Windows has none, and trims unused pages by itself
            self._map.madvise(mmap.MADV_DONTNEED)
