"""Hashes of records and of their texts, by which duplicates and leaks are found.

    hash              of labeled and running text: texts and labels
    hash_0, hash_1    of each text; of pairs, with its language

A pair is the same in either order of its languages: its identity is computed from the hashes of its
texts, smaller first.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from regard.data.records import Record

RECORD, TEXTS = "hash", ("hash_0", "hash_1")
ODD_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))

Hashes = npt.NDArray[np.uint64]


def record_hash(record: Record) -> bytes:
    """Return eight bytes that are equal for equal texts and labels, ignoring space around them."""
    return _digest((*record.texts, *(record.labels or ())))


def text_hashes(texts: Sequence[str], languages: Sequence[str]) -> list[bytes]:
    """Return eight bytes for each text, equal for equal texts of one language."""
    languages = languages or [""] * len(texts)
    return [_digest((language, text)) for language, text in zip(languages, texts, strict=True)]


def ordered(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of two texts in this order."""
    pairs: Hashes = first * ODD_FACTORS[0] + second * ODD_FACTORS[1]
    return pairs


def unordered(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of two texts in either order."""
    return ordered(np.minimum(first, second), np.maximum(first, second))


def identity(batch: pa.RecordBatch) -> Hashes:
    """Return the hash of each row that duplicates of it have too."""
    if RECORD in batch.schema.names:
        return column(batch, RECORD)
    return unordered(*(column(batch, name) for name in TEXTS))


def column(batch: pa.RecordBatch, name: str) -> Hashes:
    """Return a column of hashes."""
    values: Hashes = batch.column(name).to_numpy()
    return values


def _digest(strings: Sequence[str]) -> bytes:
    return blake2b("\0".join(map(str.strip, strings)).encode(), digest_size=8).digest()
