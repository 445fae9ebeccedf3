"""Taking out of the training rows what is held out to score on, and what stands there twice.

All is told by the column of hashes. Duplicates are looked for in one range of hashes after another,
so that what is compared at a time fits in memory however many rows there are.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.ledger import DUPLICATE, HELD_OUT
from regard.data.store.mmap import MappedFile

RANGE = 2**20  # rows whose hashes are compared at a time, about

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def hashes(path: Path) -> Hashes:
    """Those of a part, which must be small, in order of size."""
    return np.sort(np.concatenate([_hashes(batch) for batch in MappedFile(path)]))


def deduplicate(
    path: Path, held: Hashes, duplicates: bool, tell: Callable[[str, pa.RecordBatch], None]
) -> None:
    """Write a part anew without rows whose hash is held out and, if asked, without duplicates.

    `tell` hears why rows are left out, and which.
    """
    file = MappedFile(path)
    rows = sum(batch.num_rows for batch in file)
    repeated = _repeated(file, rows) if duplicates else _Bits(rows)
    if not repeated.any() and not any(_among(_hashes(batch), held).any() for batch in file):
        return
    rest, start = path.with_suffix(".rest"), 0
    with pa.ipc.new_file(str(rest), file.schema) as writer:
        for batch in file:
            is_held = _among(_hashes(batch), held)
            twice = repeated[np.arange(start, start + batch.num_rows)] & ~is_held
            start += batch.num_rows
            for why, which in ((HELD_OUT, is_held), (DUPLICATE, twice)):
                if which.any():
                    tell(why, batch.filter(which))
            left = batch.filter(~(is_held | twice))
            if left.num_rows:
                writer.write_batch(left)
    del file, batch, left  # Windows replaces no file that is mapped
    rest.replace(path)


def _repeated(file: MappedFile, rows: int) -> "_Bits":
    """Which rows have the hash of an earlier one."""
    found, ranges = _Bits(rows), rows // RANGE + 1
    bounds = [number * 2**64 // ranges for number in range(ranges + 1)]
    for low, high in pairwise(bounds):
        values, numbers = _within(file, low, high)
        order = np.argsort(values, kind="stable")  # stable: of equals, the earliest row is first
        same = values[order][1:] == values[order][:-1]
        found.set(numbers[order[1:][same]])
    return found


def _within(file: MappedFile, low: int, high: int) -> tuple[Hashes, Ints]:
    """The hashes from `low` to below `high`, and their rows."""
    values, numbers, start = [], [], 0
    for batch in file:
        here = _hashes(batch)
        inside = np.flatnonzero((here >= low) & (here <= high - 1))
        values.append(here[inside])
        numbers.append(inside + start)
        start += batch.num_rows
    return np.concatenate(values), np.concatenate(numbers)


def _hashes(batch: pa.RecordBatch) -> Hashes:
    column: Hashes = batch.column("hash").to_numpy()
    return column


def _among(values: Hashes, held: Hashes) -> Flags:
    """Which of the values are held out; `held` is sorted."""
    if not len(held):
        return np.zeros(len(values), np.bool_)
    found: Flags = held[np.searchsorted(held, values).clip(max=len(held) - 1)] == values
    return found


class _Bits:
    """A flag for each of many rows, eight to the byte."""

    def __init__(self, size: int) -> None:
        self._bytes = np.zeros(size // 8 + 1, np.uint8)

    def any(self) -> bool:
        return bool(self._bytes.any())

    def set(self, rows: Ints) -> None:
        np.bitwise_or.at(self._bytes, rows >> 3, (1 << (rows & 7)).astype(np.uint8))

    def __getitem__(self, rows: Ints) -> Flags:
        found: Flags = (self._bytes[rows >> 3] >> (rows & 7)) & 1 == 1
        return found
