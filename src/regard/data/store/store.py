"""The token store: one split (train, dev or test) as ids, in one Arrow file.

    first    list of ids    a sentence or a text
    second   list of ids    of pairs: its translation; of labeled pairs: the second text
    labels   list of int32  of labeled text: its label, or several, or none
    words    list of int32  of text with trees: the word that each of its tokens is part of
    heads    list of int32  and the head of each word
    lines    int32          of running text: its number of lines
    source   int16          number of its source; the rows of a source are consecutive
    file     int32          number of its file
    line     int64          line in the file
    hash     uint64         of texts and labels; hash_0, hash_1: of each text, see filters/hashes.py
    text_0, text_1          in dev and test: the texts themselves
    alternatives            and of pairs: other references for the second text

Within a record batch, Arrow stores the ids of a column consecutively. So the file viewed as one
array of ids, and a small table of where each batch begins in it, reach any row of a file of any
size without a copy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.filters import hashes
from regard.data.records import Location
from regard.data.sources.base import RecordType
from regard.data.store.mmap import MappedFile
from regard.errors import DataError

TEXTS = ("first", "second")
NUMBERS = ("labels", "words", "heads")  # columns of lists of int32
SMALL = 2**27  # bytes that may stay mapped; of a larger file, pages are released after
TOUCHED = 512  # rows that were read, because the system maps 64 kB around each

Ids = npt.NDArray[Any]  # uint16, or int32 for a large vocabulary
Ints = npt.NDArray[np.int64]


def schema(
    vocabulary: int, record_type: RecordType, num_texts: int, raw_texts: int, trees: bool
) -> pa.Schema:
    """Return the columns of a split; `raw_texts` texts are stored beside their ids."""
    ids = pa.list_(pa.uint16() if vocabulary <= 2**16 else pa.int32())
    numbers = pa.list_(pa.int32())
    own = {"pair": [], "labeled": [("labels", numbers)], "text": [("lines", pa.int32())]}
    alternatives = [("alternatives", pa.list_(pa.large_string()))]
    return pa.schema(
        [
            *((text, ids) for text in TEXTS[:num_texts]),
            *own[record_type],
            *([("words", numbers), ("heads", numbers)] if trees else []),
            ("source", pa.int16()),
            ("file", pa.int32()),
            ("line", pa.int64()),
            *((name, pa.uint64()) for name in _hash_columns(record_type, num_texts)),
            *((f"text_{side}", pa.large_string()) for side in range(raw_texts)),
            *(alternatives if raw_texts and record_type == "pair" else []),
        ]
    )


def _hash_columns(record_type: RecordType, num_texts: int) -> list[str]:
    record = [] if record_type == "pair" else [hashes.RECORD]
    return record if record_type == "text" else [*record, *hashes.TEXTS[:num_texts]]


@dataclass(frozen=True)
class Section:
    """The consecutive rows of one source."""

    first: int  # row
    count: int
    tokens: tuple[int, ...]  # of each text
    weight: float | tuple[float, ...] = 1.0  # of each epoch
    languages: tuple[str, ...] = ()
    source_sides: tuple[int, ...] = (0, 1)  # texts of a pair that may be the source


@dataclass(frozen=True)
class SplitStats:
    """Sizes of a split, known without reading it."""

    bytes: int
    checksum: str
    longest: int  # tokens of a row, all its texts together
    files: tuple[str, ...]  # names behind the numbers in the column `file`
    rows: tuple[int, ...]  # of each source
    tokens: tuple[tuple[int, ...], ...]  # of each text of each source

    @classmethod
    def measure(cls, path: Path, files: Iterable[str], sources: int) -> "SplitStats":
        """Measure a split that was written: a record batch has rows of one source."""
        file, longest, rows = MappedFile(path), 0, [0] * sources
        names = [text for text in TEXTS if text in file.schema.names]
        tokens = [[0] * len(names) for _ in range(sources)]
        for batch in file:
            source = batch.column("source")[0].as_py()
            rows[source] += batch.num_rows
            offsets = np.array([batch.column(text).offsets.to_numpy() for text in names])
            for side, end in enumerate(offsets[:, -1].tolist()):
                tokens[source][side] += end
            longest = max(longest, int(np.diff(offsets).sum(axis=0).max()))
        by_source = tuple(map(tuple, tokens))
        return cls(
            path.stat().st_size,
            file.checksum(),
            longest,
            tuple(files),
            tuple(rows),
            by_source,
        )

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "SplitStats":
        """Read the statistics from fingerprint.json."""
        return cls(
            content["bytes"],
            content["checksum"],
            content["longest"],
            tuple(content["files"]),
            tuple(content["rows"]),
            tuple(map(tuple, content["tokens"])),
        )


class Store:
    """A split, open for reading."""

    def __init__(self, path: Path, stats: SplitStats, sections: Sequence[Section]) -> None:
        """Open a split; raises DataError where size or checksum are not those of `stats`."""
        if not path.is_file() or path.stat().st_size != stats.bytes:
            raise DataError(f"{path}: missing, or not of the length that was written.")
        self.path, self.stats, self.sections = path, stats, tuple(sections)
        self._file, self._touched = MappedFile(path, stats.checksum), 0
        self.num_texts = sum(text in self._file.schema.names for text in TEXTS)
        width = self._file.schema.field("first").type.value_type.bit_width // 8
        self._ids = self._as_array(np.dtype(np.uint16 if width == 2 else np.int32))
        self._int32 = self._as_array(np.dtype(np.int32))
        layouts = np.array([self._layout(batch, width) for batch in self._file])
        ends = np.cumsum(layouts[:, :2], axis=0)
        self._row_starts, self._token_starts = (ends - layouts[:, :2]).T
        self._token_ends = ends[:, 1]
        columns = np.split(layouts[:, 2:], [len(NUMBERS), 2 * len(NUMBERS)], axis=1)
        self._number_offsets_at, self._numbers_at, rest = columns
        self._offsets_at, self._ids_at = np.split(rest, 2, axis=1)

    def _as_array(self, dtype: np.dtype[Any]) -> Ids:
        return np.frombuffer(self._file.buffer, dtype, self.stats.bytes // dtype.itemsize)

    def _layout(self, batch: pa.RecordBatch, width: int) -> list[int]:
        """Return rows, tokens of the first text, and file offsets of numbers, offsets and ids."""

        def at(buffer: pa.Buffer | None, size: int) -> int:
            return 0 if buffer is None else (buffer.address - self._file.buffer.address) // size

        columns = [batch.column(text) for text in TEXTS[: self.num_texts]]
        numbers = [batch.column(name) if name in batch.schema.names else None for name in NUMBERS]
        return [
            batch.num_rows,
            len(columns[0].values),
            *(at(None if column is None else column.buffers()[1], 4) for column in numbers),
            *(at(None if column is None else column.values.buffers()[1], 4) for column in numbers),
            *(at(column.buffers()[1], 4) for column in columns),
            *(at(column.values.buffers()[1], width) for column in columns),
        ]

    def __len__(self) -> int:
        return sum(self.stats.rows)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Number of tokens of each text, over all rows."""
        return tuple(map(sum, zip(*self.stats.tokens, strict=True)))

    @property
    def longest(self) -> int:
        """Number of tokens of the longest row, all its texts together."""
        return self.stats.longest

    def lengths(self, rows: Ints) -> Ints:
        """Return the number of tokens (N, texts) of each text of these rows."""
        lengths, order = np.empty((len(rows), self.num_texts), np.int64), np.argsort(rows)
        for start in range(0, len(rows), TOUCHED):
            some = order[start : start + TOUCHED]  # sorted, so that neighbors share pages
            self._touch(len(some))
            begin, end = self._spans(rows[some, None], np.arange(self.num_texts))
            lengths[some] = end - begin
        return lengths

    def ids(self, rows: Ints, sides: Ints) -> list[Ids]:
        """Return the ids of text sides[i] of row rows[i], as views of the file."""
        self._touch(len(rows))
        begin, end = self._spans(rows, sides)
        return [self._ids[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def last_ids(self, rows: Ints) -> Ints:
        """Return the last id of the first text of these rows, none of which may be empty."""
        last = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), TOUCHED):
            some = slice(start, start + TOUCHED)
            self._touch(len(rows[some]))
            last[some] = self._ids[self._spans(rows[some], np.zeros_like(rows[some]))[1] - 1]
        return last

    def row(self, row: int) -> tuple[Ids, ...]:
        """Return the ids of all texts of one row."""
        return tuple(self.ids(np.full(self.num_texts, row), np.arange(self.num_texts)))

    def labels(self, rows: Ints) -> list[Ids]:
        """Return the label numbers of each of these rows."""
        return self._numbers("labels", rows)

    def trees(self, rows: Ints) -> tuple[list[Ids], list[Ids]]:
        """Return for each row the word of each token of its first text, and the word heads."""
        self._touch(len(rows))
        return self._numbers("words", rows), self._numbers("heads", rows)

    def _numbers(self, column: str, rows: Ints) -> list[Ids]:
        batch, within = self._locate(rows)
        which = NUMBERS.index(column)
        offsets = self._number_offsets_at[batch, which] + within
        first = self._numbers_at[batch, which]
        begin, end = first + self._int32[offsets], first + self._int32[offsets + 1]
        return [self._int32[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def stream(self, start: int, length: int) -> Ids:
        """Return `length` ids of the concatenated first texts from token `start` on."""
        self._touch(1)
        chunks = []
        while length > 0:
            batch = np.searchsorted(self._token_ends, start, side="right")
            count = min(length, self._token_ends[batch] - start)
            at = self._ids_at[batch, 0] + start - self._token_starts[batch]
            chunks.append(self._ids[at : at + count])
            start, length = start + count, length - count
        return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def _locate(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the record batch of each row, and its number within the batch."""
        batch = np.searchsorted(self._row_starts, rows, side="right") - 1
        return batch, rows - self._row_starts[batch]

    def _spans(self, rows: Ints, sides: Ints) -> tuple[Ints, Ints]:
        """Return where the ids of these texts of these rows begin and end in the file."""
        batch, within = self._locate(rows)
        offsets, ids = self._offsets_at[batch, sides] + within, self._ids_at[batch, sides]
        return ids + self._int32[offsets], ids + self._int32[offsets + 1]

    def location(self, row: int) -> Location:
        """Return the file and the line that a row comes from."""
        batch, within = self._locate(np.array([row]))
        record = self._file[int(batch[0])].slice(int(within[0]), 1)
        file, line = (record.column(name)[0].as_py() for name in ("file", "line"))
        return Location(self.stats.files[file], line)

    def texts(self, side: int) -> Iterator[str]:
        """Yield the raw first (0) or second (1) texts in order; only dev and test have them."""
        for batch in self._file:
            yield from batch.column(f"text_{side}").to_pylist()

    def references(self) -> Iterator[tuple[str, ...]]:
        """Yield all references of each pair in order; only dev and test have them."""
        for batch in self._file:
            columns = (batch.column(name).to_pylist() for name in ("text_1", "alternatives"))
            yield from ((first, *others) for first, others in zip(*columns, strict=True))

    def _touch(self, rows: int) -> None:
        self._touched += rows
        if self._touched > TOUCHED and self.stats.bytes > SMALL:
            self.release()

    def release(self) -> None:
        """Release the pages that were read; views stay valid."""
        self._touched = 0
        self._file.release()
