"""Read a SentencePiece model file: pieces, scores, normalization.

The file is a protocol buffer: fields of (number << 3 | type), of which these are used.

    1  piece, repeated: 1 text, 2 score (float), 3 type (2 unknown, 3 control, 6 byte)
    2  training: 3 model type (1 unigram, 2 BPE)
    3  normalization: 2 compiled table of replacements, 4 remove extra spaces
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import DataError

UNKNOWN, CONTROL, BYTE = 2, 3, 6
Value = int | bytes


@dataclass
class SentencePieces:
    """Content of a SentencePiece model."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # text, score, type
    is_bpe: bool = False
    replacements: bytes = b""  # compiled
    trims: bool = True  # removes extra spaces


def read_sentencepiece(path: Path) -> SentencePieces:
    """Read a model file; raises DataError if it is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    model = SentencePieces()
    try:
        for number, value in _fields(data):
            inner = dict(_fields(value)) if isinstance(value, bytes) and number in (1, 2, 3) else {}
            if number == 1:
                (score,) = struct.unpack("<f", bytes(inner.get(2, bytes(4))))
                model.pieces.append((bytes(inner[1]).decode(), score, int(inner.get(3, 1))))
            elif number == 2:
                model.is_bpe = inner.get(3, 1) == 2
            elif number == 3:
                model.replacements = bytes(inner.get(2, b""))
                model.trims = bool(inner.get(4, 1))
    except (IndexError, KeyError, ValueError, TypeError, struct.error) as error:
        raise DataError(f"{path}: not a SentencePiece model ({error}).") from None
    if not model.pieces:
        raise DataError(f"{path}: not a SentencePiece model: it has no pieces.")
    return model


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        kind = tag & 7
        value: Value
        if kind == 0:
            value, at = _number(data, at)
        elif kind == 2:
            size, at = _number(data, at)
            value, at = data[at : at + size], at + size
            if len(value) < size:
                raise ValueError("it is truncated")
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"field of type {kind}")
        yield tag >> 3, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint: seven bits a byte, lowest first; the last byte has its high bit unset."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
