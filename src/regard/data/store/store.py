"""The token store: a part of the data (train, dev or test) as ids, one Arrow file on the disk.

    first    list of ids    a sentence or a text
    second   list of ids    of pairs: its translation; of labelled pairs: the other text
    labels   list of int32  of labelled text: its label, or several, or none
    words    list of int32  of text with trees: the word that each of its ids is part of
    heads    list of int32  and the head of each word
    lines    int32          of running text: how many lines it is
    source   int16          which source it comes from: rows of one source stand together
    file     int32          which file,
    line     int64          and which line of it
    hash     uint64         of the stripped texts
    text_0, text_1          in dev and test: the texts themselves
    others                  and of pairs: what might stand in the place of the second

Within a record batch, Arrow lays the ids of a column one after the other. So the whole file seen
as one array of ids, and a small table of where each batch begins in it, reach any row of a file of
any size without a copy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.records import Place
from regard.data.sources.base import RecordType
from regard.data.store.mmap import MappedFile
from regard.errors import DataError

SIDES = ("first", "second")
NUMBERS = ("labels", "words", "heads")  # columns of numbers, as many as a row has
SMALL = 2**27  # bytes that may stay mapped; of a larger file, pages are given back after
TOUCHED = 512  # rows that were looked at, for around each the system maps 64 kB

Ids = npt.NDArray[Any]  # uint16, or int32 for a large vocabulary
Ints = npt.NDArray[np.int64]


def schema(
    vocabulary: int, record_type: RecordType, sides: int, texts: int, trees: bool
) -> pa.Schema:
    """The columns of a part; `texts` says how many raw texts are kept beside the ids."""
    ids = pa.list_(pa.uint16() if vocabulary <= 2**16 else pa.int32())
    numbers = pa.list_(pa.int32())
    own = {"pair": [], "labeled": [("labels", numbers)], "text": [("lines", pa.int32())]}
    return pa.schema(
        [
            *((side, ids) for side in SIDES[:sides]),
            *own[record_type],
            *([("words", numbers), ("heads", numbers)] if trees else []),
            ("source", pa.int16()),
            ("file", pa.int32()),
            ("line", pa.int64()),
            ("hash", pa.uint64()),
            *((f"text_{side}", pa.large_string()) for side in range(texts)),
            *([("others", pa.list_(pa.large_string()))] if texts and record_type == "pair" else []),
        ]
    )


@dataclass(frozen=True)
class Section:
    """The rows of one source, which stand together."""

    first: int  # row
    count: int
    tokens: tuple[int, ...]  # of each side
    weight: float = 1.0
    languages: tuple[str, ...] = ()


@dataclass(frozen=True)
class SplitStats:
    """What is known of a part without reading it."""

    bytes: int
    longest: int  # tokens of a row, its sides together
    files: tuple[str, ...]  # the names behind the column
    rows: tuple[int, ...]  # of each source
    tokens: tuple[tuple[int, ...], ...]  # of each side of each source

    @classmethod
    def of(cls, path: Path, files: Iterable[str], sources: int) -> "SplitStats":
        """Measured on a part as it was written: a record batch is of one source."""
        file, longest, rows = MappedFile(path), 0, [0] * sources
        names = [side for side in SIDES if side in file.schema.names]
        tokens = [[0] * len(names) for _ in range(sources)]
        for batch in file:
            source = batch.column("source")[0].as_py()
            rows[source] += batch.num_rows
            offsets = np.array([batch.column(side).offsets.to_numpy() for side in names])
            for side, end in enumerate(offsets[:, -1].tolist()):
                tokens[source][side] += end
            longest = max(longest, int(np.diff(offsets).sum(axis=0).max()))
        each = tuple(map(tuple, tokens))
        return cls(path.stat().st_size, longest, tuple(files), tuple(rows), each)

    @classmethod
    def from_plain(cls, content: Mapping[str, Any]) -> "SplitStats":
        return cls(
            content["bytes"],
            content["longest"],
            tuple(content["files"]),
            tuple(content["rows"]),
            tuple(map(tuple, content["tokens"])),
        )


class Store:
    """A part, open for reading."""

    def __init__(self, path: Path, facts: SplitStats, sections: Sequence[Section]) -> None:
        if not path.is_file() or path.stat().st_size != facts.bytes:
            raise DataError(f"{path}: not there, or not as long as it was written.")
        self.path, self.facts, self.sections = path, facts, tuple(sections)
        self._file, self._touched = MappedFile(path), 0
        self.num_texts = sum(side in self._file.schema.names for side in SIDES)
        width = self._file.schema.field("first").type.value_type.bit_width // 8
        self._ids = self._whole(np.dtype(np.uint16 if width == 2 else np.int32))
        self._words = self._whole(np.dtype(np.int32))
        layouts = np.array([self._layout(batch, width) for batch in self._file])
        ends = np.cumsum(layouts[:, :2], axis=0)
        self._row_starts, self._token_starts = (ends - layouts[:, :2]).T
        self._token_ends = ends[:, 1]
        columns = np.split(layouts[:, 2:], [len(NUMBERS), 2 * len(NUMBERS)], axis=1)
        self._number_offsets_at, self._numbers_at, rest = columns
        self._offsets_at, self._ids_at = np.split(rest, 2, axis=1)

    def _whole(self, kind: np.dtype[Any]) -> Ids:
        return np.frombuffer(self._file.whole, kind, self.facts.bytes // kind.itemsize)

    def _layout(self, batch: pa.RecordBatch, width: int) -> list[int]:
        """Rows, tokens of the first side, and where numbers, offsets and ids begin in the file."""

        def at(buffer: pa.Buffer | None, size: int) -> int:
            return 0 if buffer is None else (buffer.address - self._file.whole.address) // size

        columns = [batch.column(side) for side in SIDES[: self.num_texts]]
        there = [name if name in batch.schema.names else None for name in NUMBERS]
        numbers = [None if name is None else batch.column(name) for name in there]
        return [
            batch.num_rows,
            len(columns[0].values),
            *(at(None if each is None else each.buffers()[1], 4) for each in numbers),
            *(at(None if each is None else each.values.buffers()[1], 4) for each in numbers),
            *(at(column.buffers()[1], 4) for column in columns),
            *(at(column.values.buffers()[1], width) for column in columns),
        ]

    def __len__(self) -> int:
        return sum(self.facts.rows)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Of each side."""
        return tuple(map(sum, zip(*self.facts.tokens, strict=True)))

    @property
    def longest(self) -> int:
        """Tokens of a row, its sides together."""
        return self.facts.longest

    def lengths(self, rows: Ints) -> Ints:
        """Tokens (N, sides) of each side of these rows."""
        found, order = np.empty((len(rows), self.num_texts), np.int64), np.argsort(rows)
        for start in range(0, len(rows), TOUCHED):
            some = order[start : start + TOUCHED]  # neighbours share pages
            self._touch(len(some))
            begin, end = self._spans(rows[some, None], np.arange(self.num_texts))
            found[some] = end - begin
        return found

    def ids(self, rows: Ints, sides: Ints) -> list[Ids]:
        """One side of each of these rows: views of the file."""
        self._touch(len(rows))
        begin, end = self._spans(rows, sides)
        return [self._ids[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def lasts(self, rows: Ints) -> Ints:
        """The last id of the first side of each of these rows, none of which may be empty."""
        found = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), TOUCHED):
            some = slice(start, start + TOUCHED)
            self._touch(len(rows[some]))
            found[some] = self._ids[self._spans(rows[some], np.zeros_like(rows[some]))[1] - 1]
        return found

    def row(self, row: int) -> tuple[Ids, ...]:
        """All sides of one row."""
        return tuple(self.ids(np.full(self.num_texts, row), np.arange(self.num_texts)))

    def labels(self, rows: Ints) -> list[Ids]:
        """The labels of each of these rows, as numbers."""
        return self._numbers("labels", rows)

    def trees(self, rows: Ints) -> tuple[list[Ids], list[Ids]]:
        """Of each of these rows: the word that each id of its first side is part of, and the head
        of each word."""
        self._touch(len(rows))
        return self._numbers("words", rows), self._numbers("heads", rows)

    def _numbers(self, column: str, rows: Ints) -> list[Ids]:
        batch, within = self._locate(rows)
        which = NUMBERS.index(column)
        offsets = self._number_offsets_at[batch, which] + within
        first = self._numbers_at[batch, which]
        begin, end = first + self._words[offsets], first + self._words[offsets + 1]
        return [self._words[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]

    def stream(self, start: int, length: int) -> Ids:
        """So many ids of the first side from there on, as if all rows were one."""
        self._touch(1)
        pieces = []
        while length > 0:
            batch = np.searchsorted(self._token_ends, start, side="right")
            here = min(length, self._token_ends[batch] - start)
            at = self._ids_at[batch, 0] + start - self._token_starts[batch]
            pieces.append(self._ids[at : at + here])
            start, length = start + here, length - here
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _locate(self, rows: Ints) -> tuple[Ints, Ints]:
        """The batch of each row, and which of its rows it is."""
        batch = np.searchsorted(self._row_starts, rows, side="right") - 1
        return batch, rows - self._row_starts[batch]

    def _spans(self, rows: Ints, sides: Ints) -> tuple[Ints, Ints]:
        """Where the ids of these sides of these rows begin and end in the file."""
        batch, within = self._locate(rows)
        offsets, ids = self._offsets_at[batch, sides] + within, self._ids_at[batch, sides]
        return ids + self._words[offsets], ids + self._words[offsets + 1]

    def place(self, row: int) -> Place:
        """The file and the line that a row comes from."""
        batch, within = self._locate(np.array([row]))
        record = self._file[int(batch[0])].slice(int(within[0]), 1)
        file, line = (record.column(name)[0].as_py() for name in ("file", "line"))
        return Place(self.facts.files[file], line)

    def texts(self, side: int) -> Iterator[str]:
        """The raw texts of one side, in order; dev and test have them."""
        for batch in self._file:
            yield from batch.column(f"text_{side}").to_pylist()

    def references(self) -> Iterator[tuple[str, ...]]:
        """Of pairs: all that may stand on the second side, in order; dev and test have them."""
        for batch in self._file:
            columns = (batch.column(name).to_pylist() for name in ("text_1", "others"))
            yield from ((first, *others) for first, others in zip(*columns, strict=True))

    def _touch(self, rows: int) -> None:
        self._touched += rows
        if self._touched > TOUCHED and self.facts.bytes > SMALL:
            self.release()

    def release(self) -> None:
        """Give back the pages that were looked at; views stay good."""
        self._touched = 0
        self._file.release()
