"""Write records to a token store: encode them in batches, check their length, append rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.config import Dropped
from regard.data.filters.hashes import record_hash, text_hashes
from regard.data.ledger import OVER_LIMIT, Ledger
from regard.data.records import SEPARATE, LengthLimits, Record, Rejected
from regard.data.sources.base import RecordType
from regard.data.sources.characters import quote
from regard.data.sources.trees import Tree, token_words
from regard.data.store import store
from regard.data.tokenizers.cached_encoder import Encode
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.truncation import truncate, truncate_texts

ROWS, CHARACTERS = 8192, 2**20  # limits of a record batch; the first that is reached ends it
EXTRA = 2  # special tokens of a text: a language tag or start, and an end

IdsByText = Sequence[Sequence[list[int]]]  # [text][record] → ids


@dataclass(frozen=True)
class RowEncoder:
    """Turns records into rows of ids, in the same manner for every split."""

    record_type: RecordType
    tokenizer: Tokenizer
    encode_all: Encode  # equal to the tokenizer's, but faster where possible
    limit: int  # tokens of a text; running text has no limit
    labels: dict[str, int]
    num_texts: int
    trees: bool = False  # True if every record has a dependency tree
    length_limits: LengthLimits = SEPARATE

    def encode(self, records: Sequence[Record]) -> IdsByText:
        """Encode all texts; running text gets an end token where its document ends."""
        ids_by_text = [
            self.encode_all([record.texts[number] for record in records])
            for number in range(self.num_texts)
        ]
        if self.record_type == "text":
            for record, ids in zip(records, ids_by_text[0], strict=True):
                ids.extend([self.tokenizer.end] * record.ends_document)
        return ids_by_text

    def truncate(self, ids_by_text: IdsByText) -> tuple[IdsByText, int]:
        """Truncate texts to their limits; return also the number of truncated records."""
        first, *others = ids_by_text
        if (limit := self.length_limits.max_first_text) is not None:
            return [[ids[:limit] for ids in first], *others], sum(len(ids) > limit for ids in first)
        if (keep := self.length_limits.truncate) is None or not first:
            return ids_by_text, 0
        rows = list(zip(*ids_by_text, strict=True))
        truncated = [truncate_texts(row, self._room, keep) for row in rows]
        number = sum(sum(map(len, row)) > self._room for row in rows)
        return list(map(list, zip(*truncated, strict=True))), number

    @property
    def _room(self) -> int:
        """Number of tokens that labeled texts may have: they are one sequence, with separators."""
        return self.limit - EXTRA - (self.num_texts - 1)

    def words(self, record: Record) -> list[int]:
        """Return for each token of a record the number of its word in the tree."""
        spans = self.tokenizer.spans(record.texts[0])
        words = token_words([(first, end) for _, first, end in spans], _tree(record))
        keep = self.length_limits.truncate
        return words if keep is None else truncate(words, self._room, keep)

    def reject_reason(self, record: Record, lengths: Sequence[int]) -> Rejected | None:
        """Return why a record with texts of these lengths cannot be used, or None."""
        if self.record_type == "text":
            return None
        if not min(lengths):
            return Rejected(record.location, "empty side", "the tokenizer gives no token for it")
        needed = EXTRA + max(lengths)
        if self.record_type == "labeled":
            needed = sum(lengths) + self.limit - self._room
        if self.length_limits.single_sequence:
            needed = 2 * EXTRA + sum(lengths)
        if needed > self.limit:
            detail = f"{needed:,} tokens, more than the model's {self.limit:,}"
            return Rejected(record.location, OVER_LIMIT, detail, needed)
        for label in record.labels or ():
            if label not in self.labels:
                detail = f"no training text has the label {quote(label)}"
                return Rejected(record.location, "unknown label", detail)
        return None


class StoreWriter:
    """Writes one split and counts every line in the ledger.

    A dropped line counts for the split it was read for, which is train for dev data taken from it.
    """

    def __init__(
        self,
        path: Path,
        row_encoder: RowEncoder,
        ledger: Ledger,
        source_names: Sequence[str],
        read_for: str,
        language_pairs: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.files: dict[str, int] = {}
        self._split, self._read_for = path.stem, read_for
        self._row_encoder, self._ledger, self._source_names = row_encoder, ledger, source_names
        self._schema = store.schema(
            len(row_encoder.tokenizer),
            row_encoder.record_type,
            row_encoder.num_texts,
            0 if self._split == "train" else row_encoder.num_texts,
            row_encoder.trees,
        )
        self._writer = pa.ipc.new_file(str(path), self._schema)
        self._language_pairs = language_pairs or [()] * len(source_names)
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
        """Add a record of the source with this number."""
        full = len(self._pending) == ROWS or self._size > CHARACTERS
        if full or source != self._source:  # a record batch has one source
            self._write()
        self._source = source
        self._pending.append(record)
        self._size += sum(map(len, record.texts))

    def drop(self, source: int, dropped: Dropped) -> None:
        """Count a record that is not written."""
        self._ledger.drop(self._read_for, self._source_names[source], *dropped)

    def _write(self) -> None:
        """Write the pending records as a record batch and drop those that are unusable."""
        records, self._pending, self._size = self._pending, [], 0
        ids_by_text, truncated = self._row_encoder.truncate(self._row_encoder.encode(records))
        self._ledger.truncate(self._split, self._source_names[self._source], truncated)
        lengths = zip(*(map(len, ids) for ids in ids_by_text), strict=True)
        reasons = list(map(self._row_encoder.reject_reason, records, lengths))
        if any(reasons):
            for record, rejected in zip(records, reasons, strict=True):
                if rejected is not None:
                    self.drop(self._source, Dropped(rejected, record.lines, record.texts))
            usable = [rejected is None for rejected in reasons]
            records = list(compress(records, usable))
            ids_by_text = [list(compress(ids, usable)) for ids in ids_by_text]
        if records:
            lines = sum(record.lines for record in records)
            self._ledger.keep(self._split, self._source_names[self._source], lines)
            self._writer.write_batch(self._batch(records, ids_by_text))

    def _batch(self, records: Sequence[Record], ids_by_text: IdsByText) -> pa.RecordBatch:
        """Return the columns of the schema."""
        words = self._row_encoder.words
        columns: dict[str, Callable[[pa.DataType], Any]] = {
            "first": lambda dtype: _lists(ids_by_text[0], dtype),
            "second": lambda dtype: _lists(ids_by_text[1], dtype),
            "labels": lambda dtype: _lists(list(map(self._label_numbers, records)), dtype),
            "words": lambda dtype: _lists(list(map(words, records)), dtype),
            "heads": lambda dtype: _lists([list(_tree(record).heads) for record in records], dtype),
            "lines": lambda _: [record.lines for record in records],
            "source": lambda _: np.full(len(records), self._source, np.int16),
            "file": lambda _: [self._file_number(record.location.file) for record in records],
            "line": lambda _: [record.location.line for record in records],
            "hash": lambda _: np.frombuffer(b"".join(map(record_hash, records)), np.uint64),
            "hash_0": lambda _: self._text_hashes(records, 0),
            "hash_1": lambda _: self._text_hashes(records, 1),
            "text_0": lambda _: [record.texts[0] for record in records],
            "text_1": lambda _: [record.texts[1] for record in records],
            "alternatives": lambda dtype: pa.array([r.alternatives for r in records], dtype),
        }
        arrays = [columns[field.name](field.type) for field in self._schema]
        return pa.record_batch(arrays, schema=self._schema)

    def _text_hashes(self, records: Sequence[Record], side: int) -> npt.NDArray[np.uint64]:
        languages = self._language_pairs[self._source][side : side + 1]
        digests = (text_hashes(record.texts[side : side + 1], languages) for record in records)
        return np.frombuffer(b"".join(chain.from_iterable(digests)), np.uint64)

    def _label_numbers(self, record: Record) -> list[int]:
        return [self._row_encoder.labels[label] for label in record.labels or ()]

    def _file_number(self, file: str) -> int:
        return self.files.setdefault(file, len(self.files))


def _tree(record: Record) -> Tree:
    assert record.tree is not None  # a source with `trees` gives one for every record
    return record.tree


def _lists(rows: Sequence[list[int]], dtype: pa.ListType) -> pa.ListArray:
    ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
    ids = np.fromiter(chain.from_iterable(rows), np.dtype(str(dtype.value_type)), ends[-1])
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))
