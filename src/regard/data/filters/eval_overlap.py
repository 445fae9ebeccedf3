"""Training records that are also in dev or test, wholly or in one text.

    in dev or test                      the same texts (and labels)
    in dev or test with another label   the same texts with other labels
    reversed in dev or test             the same texts in the other order: train fr-en, dev en-fr
    source in dev or test               of a pair: the source, with another target
    target in dev or test               of a pair: the target, with another source
    first text, second text …           of labeled pairs: one of the texts, with another one

The first three are leaks and are dropped. One text of a pair may be the same by coincidence if it
is short ("Yes."), and is dropped above `max_shared_text` characters. One text of a labeled pair is
the same by design where a premise has several hypotheses: it is only reported.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.filters.config import FiltersSpec
from regard.data.filters.hashes import (
    RECORD,
    TEXTS,
    Hashes,
    column,
    ordered,
    text_hashes,
    unordered,
)
from regard.data.ledger import EVAL_OVERLAP, RELABELED, REVERSED, SHARED_TEXTS
from regard.data.sources.base import RecordType
from regard.data.store.mmap import MappedFile

Flags = npt.NDArray[np.bool_]
Languages = Sequence[Sequence[str]]  # languages of the texts of each source


@dataclass(frozen=True)
class Overlap:
    """Rows of a batch that overlap with dev or test in one manner."""

    reason: str
    rows: Flags
    is_dropped: bool


class EvalTexts:
    """Hashes of the records and texts of dev and test, sorted."""

    def __init__(
        self, splits: Sequence[tuple[Path, Languages]], record_type: RecordType, spec: FiltersSpec
    ) -> None:
        """Read splits that were written, each with the languages of its sources."""
        self._record_type, self._spec = record_type, spec
        collected = _Collected()
        for path, languages in splits:
            for batch in MappedFile(path):
                collected.add(batch, languages)
        self._records, self._ordered, self._unordered = map(
            _sorted, (collected.records, collected.ordered, collected.unordered)
        )
        texts, lengths = _concatenated(collected.texts), np.array(collected.lengths, np.int64)
        limit = spec.max_shared_text
        self._texts = np.sort(texts)
        is_long = np.zeros(len(texts), np.bool_) if limit is None else lengths > limit
        self._long_texts = np.sort(texts[is_long]) if record_type == "pair" else texts[:0]

    def overlaps(self, batch: pa.RecordBatch) -> Iterator[Overlap]:
        """Yield the overlaps of training rows; a row is in one of them at most."""
        drops = self._spec.eval_overlap == "drop"
        rest = np.ones(batch.num_rows, np.bool_)
        for reason, rows, is_leak in self._kinds(batch):
            if (rows := rows & rest).any():
                rest &= ~rows
                yield Overlap(reason, rows, drops and is_leak)

    def _kinds(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Flags, bool]]:
        """Yield reasons, rows, and whether these are leaks; the first that a row is in counts."""
        texts = [column(batch, name) for name in TEXTS if name in batch.schema.names]
        if RECORD in batch.schema.names:
            yield EVAL_OVERLAP, is_among(column(batch, RECORD), self._records), True
        if texts:
            same_order = texts[0] if len(texts) == 1 else ordered(*texts)
            reason = RELABELED if self._record_type == "labeled" else EVAL_OVERLAP
            yield reason, is_among(same_order, self._ordered), True
        if len(texts) == 2:
            yield REVERSED, is_among(unordered(*texts), self._unordered), True
            for hashes, is_leak in ((self._long_texts, True), (self._texts, False)):
                for reason, text in zip(SHARED_TEXTS[self._record_type], texts, strict=True):
                    yield reason, is_among(text, hashes), is_leak


class _Collected:
    """Hashes of batches of dev and test."""

    def __init__(self) -> None:
        self.records: list[Hashes] = []
        self.ordered: list[Hashes] = []
        self.unordered: list[Hashes] = []
        self.texts: list[Hashes] = []
        self.lengths: list[int] = []  # characters of each of the texts

    def add(self, batch: pa.RecordBatch, languages: Languages) -> None:
        """Add the rows of a batch, which are of one source."""
        if RECORD in batch.schema.names:
            self.records.append(column(batch, RECORD))
        texts = [column(batch, name) for name in TEXTS if name in batch.schema.names]
        for side, hashes in enumerate(texts):
            self._add_texts(hashes, batch.column(f"text_{side}").to_pylist())
        if len(texts) == 1:
            self.ordered.append(texts[0])
        elif texts:
            self._add_pairs(*texts)
        if "alternatives" in batch.schema.names:
            self._add_alternatives(batch, texts[0], languages[batch.column("source")[0].as_py()][1])

    def _add_texts(self, hashes: Hashes, texts: Sequence[str]) -> None:
        self.texts.append(hashes)
        self.lengths.extend(len(text.strip()) for text in texts)

    def _add_pairs(self, first: Hashes, second: Hashes) -> None:
        self.ordered.append(ordered(first, second))
        self.unordered.append(unordered(first, second))

    def _add_alternatives(self, batch: pa.RecordBatch, sources: Hashes, language: str) -> None:
        """Add other references: with the source, each is a pair of its own."""
        rows = batch.column("alternatives").to_pylist()
        texts = [text for row in rows for text in row]
        if texts:
            digests = text_hashes(texts, [language] * len(texts))
            hashes = np.frombuffer(b"".join(digests), np.uint64)
            self._add_texts(hashes, texts)
            self._add_pairs(np.repeat(sources, [len(row) for row in rows]), hashes)


def is_among(values: Hashes, among: Hashes) -> Flags:
    """Return a flag for each value that is in the sorted array `among`."""
    if not len(among):
        return np.zeros(len(values), np.bool_)
    flags: Flags = among[np.searchsorted(among, values).clip(max=len(among) - 1)] == values
    return flags


def _concatenated(hashes: Sequence[Hashes]) -> Hashes:
    return np.concatenate([np.zeros(0, np.uint64), *hashes])


def _sorted(hashes: Sequence[Hashes]) -> Hashes:
    return np.sort(_concatenated(hashes))
