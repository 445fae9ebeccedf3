"""Encodings other than UTF-8: which are recognized, and what is damage instead."""

import gzip
from pathlib import Path

import pytest
from tests.data.sources.reading import read, write

from regard.data.records import Record, Rejected
from regard.data.sources.encodings import (
    LATIN_1,
    UNKNOWN,
    UTF_16,
    UTF_16_BE,
    UTF_16_LE,
    WINDOWS_1252,
    guess_narrow,
    guess_wide,
)
from regard.errors import DataError

FRENCH = "Le garçon a mangé à l’hôtel – déjà.\nRien.\n"


@pytest.mark.parametrize(
    ("content", "guess"),
    [
        (FRENCH.encode("cp1252"), WINDOWS_1252),
        ("Le garçon est là.\n".encode("latin-1"), LATIN_1),
        (FRENCH.encode(), None),
        (b"plain\n", None),
        (FRENCH.encode() + b"caf\xe9\n", None),  # as many lines are valid
        (b"dam\xffaged\n", None),
        ("привет, мир\n".encode("koi8-r") * 20, UNKNOWN),
        ("привет, мир\n".encode("koi8-r"), None),
    ],
)
def test_encodings_of_one_byte_a_character(content: bytes, guess: object) -> None:
    assert guess_narrow(content.splitlines(keepends=True)) == guess


@pytest.mark.parametrize(
    ("content", "guess"),
    [
        ("text".encode("utf-16"), UTF_16),
        ("text".encode("utf-16-le"), UTF_16_LE),
        ("text".encode("utf-16-be"), UTF_16_BE),
        (b"a\x00b", None),  # one zero byte is damage
        (b"\x00\x00\x00\x00", None),
        (b"", None),
        (FRENCH.encode(), None),
    ],
)
def test_utf_16(content: bytes, guess: object) -> None:
    assert guess_wide(content) == guess


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8", "koi8-r"])
def test_a_source_reads_its_encoding(tmp_path: Path, encoding: str) -> None:
    text = "мир\n" if encoding == "koi8-r" else "déjà vu\r\nvu\n"
    path = write(tmp_path / "a.txt", gzip.compress(text.encode(encoding)))
    (record,) = read(kind="text", path=path, encoding=encoding)
    assert isinstance(record, Record)
    assert record.texts == (text.replace("\r", ""),)


def test_a_wrong_encoding_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"one\ntwo\n\x81\n")
    with pytest.raises(DataError, match=r"a\.txt, line 3: this is not cp1252; correct the `encod"):
        read(kind="text", path=path, encoding="cp1252")


def test_a_damaged_line_of_utf_8_is_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "déjà\t1\nété\t0\n".encode() + b"caf\xe9\t1\n")
    *_, last = read(kind="labeled", path=path)
    assert isinstance(last, Rejected)
    assert last.reason == "invalid UTF-8"
