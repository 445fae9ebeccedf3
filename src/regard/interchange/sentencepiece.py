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
BPE = 2  # model type
MAX_BYTES = 1 << 28
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
        if path.stat().st_size > MAX_BYTES:
            raise DataError(
                f"{path}: has more than {MAX_BYTES:,} bytes: not a SentencePiece model."
            )
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    model = SentencePieces()
    try:
        for number, value in _fields(data):
            if number == 1:
                model.pieces.append(_piece(value))
            elif number == 2:
                model.is_bpe = _integer(_message(value), 3, 1) == BPE
            elif number == 3:
                inner = _message(value)
                model.replacements = _bytes(inner, 2)
                model.trims = bool(_integer(inner, 4, 1))
    except (IndexError, ValueError, struct.error) as error:
        raise DataError(f"{path}: not a SentencePiece model, or damaged ({error}).") from None
    if not model.pieces:
        raise DataError(f"{path}: not a SentencePiece model: it has no pieces.")
    return model


def _piece(value: Value) -> tuple[str, float, int]:
    inner = _message(value)
    (score,) = struct.unpack("<f", _bytes(inner, 2) or bytes(4))
    return _bytes(inner, 1).decode(), score, _integer(inner, 3, 1)


def _message(value: Value) -> dict[int, Value]:
    if not isinstance(value, bytes):
        raise ValueError("a number where a message should be")
    return dict(_fields(value))


def _bytes(message: dict[int, Value], number: int) -> bytes:
    value = message.get(number, b"")
    if not isinstance(value, bytes):
        raise ValueError(f"a number where field {number} has bytes")
    return value


def _integer(message: dict[int, Value], number: int, default: int) -> int:
    value = message.get(number, default)
    if not isinstance(value, int):
        raise ValueError(f"bytes where field {number} has a number")
    return value


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
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"field of type {kind}")
        if at > len(data):
            raise ValueError("it is truncated")
        yield tag >> 3, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a varint: seven bits a byte, lowest first; the last byte has its high bit unset."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than 64 bits")
