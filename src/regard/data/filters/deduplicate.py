"""Removal of training rows that are duplicates, or that are also in dev or test.

Rows are compared by the hash column. Duplicates are searched in one range of hashes after another,
so that the compared rows fit in memory however many there are.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.ledger import DUPLICATE, EVAL_OVERLAP
from regard.data.store.mmap import MappedFile

RANGE = 2**20  # approximate number of rows whose hashes are compared at a time

Hashes = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def hashes(path: Path) -> Hashes:
    """Return the sorted hashes of a split, which must fit in memory."""
    return np.sort(np.concatenate([_hashes(batch) for batch in MappedFile(path)]))


def deduplicate(
    path: Path,
    eval_hashes: Hashes,
    duplicates: bool,
    report: Callable[[str, pa.RecordBatch], None],
) -> None:
    """Rewrite a split without rows whose hash is in `eval_hashes` (sorted) and without duplicates.

    Duplicates are removed only if `duplicates`. `report` receives the reason and the removed rows.
    """
    file = MappedFile(path)
    rows = sum(batch.num_rows for batch in file)
    repeated = _repeated(file, rows) if duplicates else _Bits(rows)
    if not repeated.any() and not any(_among(_hashes(batch), eval_hashes).any() for batch in file):
        return
    rest, start = path.with_suffix(".rest"), 0
    with pa.ipc.new_file(str(rest), file.schema) as writer:
        for batch in file:
            overlaps = _among(_hashes(batch), eval_hashes)
            repeats = repeated[np.arange(start, start + batch.num_rows)] & ~overlaps
            start += batch.num_rows
            for reason, removed in ((EVAL_OVERLAP, overlaps), (DUPLICATE, repeats)):
                if removed.any():
                    report(reason, batch.filter(removed))
            left = batch.filter(~(overlaps | repeats))
            if left.num_rows:
                writer.write_batch(left)
    del file, batch, left  # Windows cannot replace a file that is mapped
    rest.replace(path)


def _repeated(file: MappedFile, rows: int) -> "_Bits":
    """Return the rows that have the hash of an earlier one."""
    repeated, ranges = _Bits(rows), rows // RANGE + 1
    bounds = [number * 2**64 // ranges for number in range(ranges + 1)]
    for low, high in pairwise(bounds):
        values, numbers = _within(file, low, high)
        order = np.argsort(values, kind="stable")  # stable: of equals, the earliest row is first
        same = values[order][1:] == values[order][:-1]
        repeated.set(numbers[order[1:][same]])
    return repeated


def _within(file: MappedFile, low: int, high: int) -> tuple[Hashes, Ints]:
    """Return the hashes in [low, high), and their rows."""
    values, numbers, start = [], [], 0
    for batch in file:
        column = _hashes(batch)
        inside = np.flatnonzero((column >= low) & (column <= high - 1))
        values.append(column[inside])
        numbers.append(inside + start)
        start += batch.num_rows
    return np.concatenate(values), np.concatenate(numbers)


def _hashes(batch: pa.RecordBatch) -> Hashes:
    column: Hashes = batch.column("hash").to_numpy()
    return column


def _among(values: Hashes, among: Hashes) -> Flags:
    """Return a flag for each value that is in the sorted array `among`."""
    if not len(among):
        return np.zeros(len(values), np.bool_)
    is_among: Flags = among[np.searchsorted(among, values).clip(max=len(among) - 1)] == values
    return is_among


class _Bits:
    """One flag for each of many rows, eight in a byte."""

    def __init__(self, size: int) -> None:
        self._bytes = np.zeros(size // 8 + 1, np.uint8)

    def any(self) -> bool:
        return bool(self._bytes.any())

    def set(self, rows: Ints) -> None:
        np.bitwise_or.at(self._bytes, rows >> 3, (1 << (rows & 7)).astype(np.uint8))

    def __getitem__(self, rows: Ints) -> Flags:
        flags: Flags = (self._bytes[rows >> 3] >> (rows & 7)) & 1 == 1
        return flags
