"""Records to rows: encoded some thousand at a time, measured, and written to a token store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, compress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from regard.data.config import Dropped
from regard.data.ledger import Ledger
from regard.data.records import SEPARATE, LengthLimits, Record, Rejected
from regard.data.sources.base import RecordType
from regard.data.sources.trees import Tree, words_of
from regard.data.store import store
from regard.data.tokenizers.cached_encoder import Encode
from regard.data.tokenizers.tokenizer import Tokenizer

ROWS, CHARACTERS = 8192, 2**20  # of a record batch, whichever is reached first
ROOM = 2  # tokens beside those of a side: a tag or a start, and an end

Sides = Sequence[Sequence[list[int]]]  # ids by side and record


@dataclass(frozen=True)
class RowEncoder:
    """What becomes of a record, in whichever part it is."""

    record_type: RecordType
    tokenizer: Tokenizer
    encode_all: Encode  # as the tokeniser would, but faster where it can be
    limit: int  # tokens of a side; running text has no limit
    labels: dict[str, int]
    num_texts: int  # texts of a record, all of which are turned into ids
    trees: bool = False  # does every record have one?
    length_limits: LengthLimits = SEPARATE

    def encode(self, records: Sequence[Record]) -> Sides:
        sides = [
            self.encode_all([record.texts[side] for record in records])
            for side in range(self.num_texts)
        ]
        if self.record_type == "text":
            for record, ids in zip(records, sides[0], strict=True):
                ids.extend([self.tokenizer.end] * record.ends)
        return sides

    def as_read(self, sides: Sides) -> tuple[Sides, int]:
        """The sides as far as they are read, and of how many records that is not all."""
        most = self.length_limits.max_first_text
        if most is None:
            return sides, 0
        first, *rest = sides
        return [[ids[:most] for ids in first], *rest], sum(len(ids) > most for ids in first)

    def words(self, record: Record) -> list[int]:
        """The word of its tree that each id of a record is part of."""
        spans = self.tokenizer.spans(record.texts[0])
        return words_of([(first, end) for _, first, end in spans], _tree(record))

    def wrong(self, record: Record, lengths: Sequence[int]) -> Rejected | None:
        """Why a record cannot be learned from, now that its tokens are counted."""
        if self.record_type == "text":
            return None
        if not min(lengths):
            return Rejected(record.place, "empty side", "the tokeniser leaves nothing of it")
        # Labelled texts are read as one sequence, with an end after each; sides of pairs are two.
        joined = sum(lengths) + len(lengths) - 1
        needed = ROOM + (joined if self.record_type == "labeled" else max(lengths))
        if self.length_limits.single_sequence:
            needed = 2 * ROOM + sum(lengths)
        if needed > self.limit:
            found = f"{needed:,} tokens, and the model takes {self.limit:,}"
            return Rejected(record.place, "over the limit", found)
        for label in record.labels or ():
            if label not in self.labels:
                found = f"no training text has the label {label!r}"
                return Rejected(record.place, "unknown label", found)
        return None


def record_hash(record: Record) -> bytes:
    """Eight bytes that are the same for the same texts and labels, but for space around them."""
    said = (*record.texts, *(record.labels or ()))
    return blake2b("\0".join(map(str.strip, said)).encode(), digest_size=8).digest()


class StoreWriter:
    """Writes one part, and accounts for every line that it is given.

    What it refuses is told of the part that it was read for, which is train for what is held out.
    """

    def __init__(
        self, path: Path, form: RowEncoder, ledger: Ledger, names: Sequence[str], read_for: str
    ) -> None:
        self.files: dict[str, int] = {}
        self._part, self._read_for = path.stem, read_for
        self._form, self._ledger, self._names = form, ledger, names
        texts = 0 if self._part == "train" else form.num_texts
        self._schema = store.schema(
            len(form.tokenizer), form.record_type, form.num_texts, texts, form.trees
        )
        self._writer = pa.ipc.new_file(str(path), self._schema)
        self._source, self._size = 0, 0
        self._pending: list[Record] = []

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._write()
        self._writer.close()

    def add(self, source: int, record: Record) -> None:
        full = len(self._pending) == ROWS or self._size > CHARACTERS
        if full or source != self._source:  # a batch is of one source
            self._write()
        self._source = source
        self._pending.append(record)
        self._size += sum(map(len, record.texts))

    def refuse(self, source: int, refused: Dropped) -> None:
        """Account for what is not written."""
        self._ledger.drop(self._read_for, self._names[source], *refused)

    def _write(self) -> None:
        """What is pending becomes a record batch; what proves wrong is refused after all."""
        records, self._pending, self._size = self._pending, [], 0
        sides, shortened = self._form.as_read(self._form.encode(records))
        self._ledger.shorten(self._part, self._names[self._source], shortened)
        lengths = zip(*(map(len, side) for side in sides), strict=True)
        wrong = list(map(self._form.wrong, records, lengths))
        if any(wrong):
            for record, why in zip(records, wrong, strict=True):
                if why is not None:
                    self.refuse(self._source, Dropped(why, record.lines, record.texts))
            fine = [why is None for why in wrong]
            records = list(compress(records, fine))
            sides = [list(compress(side, fine)) for side in sides]
        if records:
            lines = sum(record.lines for record in records)
            self._ledger.keep(self._part, self._names[self._source], lines)
            self._writer.write_batch(self._batch(records, sides))

    def _batch(self, records: Sequence[Record], sides: Sides) -> pa.RecordBatch:
        """The columns that the schema asks for."""
        make: dict[str, Callable[[pa.DataType], Any]] = {
            "first": lambda kind: _lists(sides[0], kind),
            "second": lambda kind: _lists(sides[1], kind),
            "labels": lambda kind: _lists(list(map(self._numbers, records)), kind),
            "words": lambda kind: _lists(list(map(self._form.words, records)), kind),
            "heads": lambda kind: _lists([list(_tree(record).heads) for record in records], kind),
            "lines": lambda _: [record.lines for record in records],
            "source": lambda _: np.full(len(records), self._source, np.int16),
            "file": lambda _: [self._number(record.place.file) for record in records],
            "line": lambda _: [record.place.line for record in records],
            "hash": lambda _: np.frombuffer(b"".join(map(record_hash, records)), np.uint64),
            "text_0": lambda _: [record.texts[0] for record in records],
            "text_1": lambda _: [record.texts[1] for record in records],
            "others": lambda kind: pa.array([record.others for record in records], kind),
        }
        columns = [make[column.name](column.type) for column in self._schema]
        return pa.record_batch(columns, schema=self._schema)

    def _numbers(self, record: Record) -> list[int]:
        return [self._form.labels[label] for label in record.labels or ()]

    def _number(self, file: str) -> int:
        return self.files.setdefault(file, len(self.files))


def _tree(record: Record) -> Tree:
    assert record.tree is not None  # a source that says it has trees has them
    return record.tree


def _lists(rows: Sequence[list[int]], kind: pa.ListType) -> pa.ListArray:
    ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
    ids = np.fromiter(chain.from_iterable(rows), kind.value_type.to_pandas_dtype(), ends[-1])
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))
