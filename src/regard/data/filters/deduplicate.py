"""Removal of training rows that are duplicates, or that are also in dev or test.

Rows are compared by hashes. Duplicates are searched in one range of hashes after another, so that
the compared rows fit in memory however many there are. Sources may be trained in one direction
only: a pair is a duplicate if earlier ones are the same in each of its directions.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.filters.eval_overlap import EvalTexts, Flags
from regard.data.filters.hashes import Hashes, identity
from regard.data.ledger import DUPLICATE
from regard.data.store.mmap import MappedFile

RANGE = 2**20  # approximate number of rows whose hashes are compared at a time

Ints = npt.NDArray[np.int64]
Report = Callable[[str, pa.RecordBatch, bool], None]  # reason, rows, True if they are dropped


Directions = Sequence[Collection[Hashable]]  # in which each source is trained


def deduplicate(
    path: Path, eval_texts: EvalTexts, directions: Directions | None, report: Report
) -> None:
    """Rewrite a split without rows that leak dev or test data and without duplicates.

    Duplicates are kept if `directions` is None. `report` receives the rows of each reason.
    """
    file = MappedFile(path)
    removed = _removed(file, eval_texts, directions, report)
    if not removed.any():
        return
    rest, start = path.with_suffix(".rest"), 0
    with pa.ipc.new_file(str(rest), file.schema) as writer:
        for batch in file:
            left = batch.filter(~removed[np.arange(start, start + batch.num_rows)])
            start += batch.num_rows
            if left.num_rows:
                writer.write_batch(left)
    del file, batch, left  # Windows cannot replace a file that is mapped
    rest.replace(path)


def _removed(
    file: MappedFile, eval_texts: EvalTexts, directions: Directions | None, report: Report
) -> "_Bits":
    """Return the rows to remove; a row that leaks and is a duplicate is reported as a leak."""
    rows, start = sum(batch.num_rows for batch in file), 0
    removed = _Bits(rows)
    repeated = _Bits(rows) if directions is None else _duplicates(file, rows, directions)
    for batch in file:
        numbers = np.arange(start, start + batch.num_rows)
        start += batch.num_rows
        repeats = repeated[numbers]
        for overlap in eval_texts.overlaps(batch):
            reported = overlap.rows if overlap.is_dropped else overlap.rows & ~repeats
            if overlap.is_dropped:
                repeats &= ~reported
                removed.set(numbers[reported])
            if reported.any():
                report(overlap.reason, batch.filter(reported), overlap.is_dropped)
        if repeats.any():
            removed.set(numbers[repeats])
            report(DUPLICATE, batch.filter(repeats), True)
    return removed


def _duplicates(file: MappedFile, rows: int, directions: Directions) -> "_Bits":
    """Return the rows that have the hash of earlier ones in each of their directions."""
    kinds = {frozenset(of_source) for of_source in directions}
    if len(kinds) == 1:
        return _repeated(file, rows, range(len(directions)))
    repeated = {
        direction: _repeated(
            file, rows, {n for n, of_source in enumerate(directions) if direction in of_source}
        )
        for direction in frozenset().union(*kinds)
    }
    duplicates, start = _Bits(rows), 0
    for batch in file:
        numbers = np.arange(start, start + batch.num_rows)
        start += batch.num_rows
        flags = [repeated[direction][numbers] for direction in directions[_source(batch)]]
        duplicates.set(numbers[np.logical_and.reduce(flags)])
    return duplicates


def _repeated(file: MappedFile, rows: int, sources: Collection[int]) -> "_Bits":
    """Return the rows of these sources that have the hash of an earlier one of them."""
    repeated, ranges = _Bits(rows), rows // RANGE + 1
    bounds = [number * 2**64 // ranges for number in range(ranges + 1)]
    for low, high in pairwise(bounds):
        values, numbers = _within(file, low, high, sources)
        order = np.argsort(values, kind="stable")  # stable: of equals, the earliest row is first
        same = values[order][1:] == values[order][:-1]
        repeated.set(numbers[order[1:][same]])
    return repeated


def _within(file: MappedFile, low: int, high: int, sources: Collection[int]) -> tuple[Hashes, Ints]:
    """Return the hashes in [low, high) of rows of these sources, and their rows."""
    values, numbers, start = [np.zeros(0, np.uint64)], [np.zeros(0, np.int64)], 0
    for batch in file:
        if _source(batch) in sources:
            column = identity(batch)
            inside = np.flatnonzero((column >= low) & (column <= high - 1))
            values.append(column[inside])
            numbers.append(inside + start)
        start += batch.num_rows
    return np.concatenate(values), np.concatenate(numbers)


def _source(batch: pa.RecordBatch) -> int:
    """Return the number of the source that the rows of a batch are of."""
    number: int = batch.column("source")[0].as_py()
    return number


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
