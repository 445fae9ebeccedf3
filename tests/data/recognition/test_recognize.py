"""Recognition of odd files: columns, headers, formats and labels."""

import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regard.data.bundled import corpus
from regard.data.recognition.formats import recognize_format
from regard.data.recognition.recognize import recognize_files
from regard.data.recognition.tables import is_header, spread
from regard.errors import DataError

PAIRS = [(pair.french, pair.english) for pair in corpus(train=80, dev=20, pronouns=0).train]


def table(path: Path, *rows: tuple[object, ...], separator: str = "\t") -> Path:
    path.write_text("".join(separator.join(map(str, row)) + "\n" for row in rows), "utf-8")
    return path


def test_a_sample_is_spread_over_the_file() -> None:
    sample, count = spread(range(100_000))
    assert count == 100_000
    assert 2000 <= len(sample) < 4000
    assert sample[0] == 0
    assert sample[-1] > 99_900
    assert len({after - before for before, after in pairwise(sample)}) == 1


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "a\tb\nc\td\n", "tsv"),
        ("a.csv", "a,b\nc,d\n", "csv"),
        ("a.csv", "a;b\nc;d\n", "csv"),
        ("a.txt", '"a, b",c\n"d",e\n"f",g\n', "csv"),
        ("a.txt", "text,label\nfine,1\nbad,0\n", "csv"),
        ("a.txt", "First, a sentence.\nThen one, two, three.\nNo comma.\n", "text"),
        ("a.txt", "def f():\n\treturn 1\n\n\tpass\n", "text"),
        ("a.json", '{"a": "b"}\n{"a": "c"}\n', "jsonl"),
        ("a.tsv", '"a ""b"""\t"c"\n"d"\t"e"\n', "csv"),
        ("a", 'msgid "a"\nmsgstr "b"\n', "po"),
    ],
)
def test_formats_by_content(tmp_path: Path, name: str, content: str, expected: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    assert recognize_format(path).name == expected


def test_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{fr}\t{en}\n" for fr, en in PAIRS), "utf-16")
    settings = recognize_files("translation", [path]).train.settings
    assert settings["encoding"] == "utf-16"
    assert settings["languages"] == ["fr", "en"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[\n{"a": 1},\n{"a": 2}\n]\n', "not one object in each line"),
        (b"PK\x03\x04rest", "a zip archive or an office document"),
        (b"\x1f\x8bdamaged", "damaged or truncated"),
        ("\n".join(["слово и дело"] * 30).encode("cp1251"), "neither UTF-8 nor Latin-1"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        recognize_format(path)


@pytest.mark.parametrize(
    ("first", "rest", "expected"),
    [
        (["fr", "en"], [["le chat", "the cat"]], True),
        (["Besprechung", "Wert"], [["ein guter Film", "1"], ["schlecht", "0"]], True),
        (["Go.", "Va !"], [["Run!", "Cours !"], ["Hi.", "Salut !"]], False),
        (["1", "2"], [["3", "4"]], False),
        (["good", "pos"], [["bad", "neg"], ["fine", "pos"], ["poor", "neg"], ["ok", "pos"]], False),
    ],
)
def test_headers(first: list[str], rest: list[list[str]], expected: bool) -> None:
    assert is_header(first, rest) == expected


def test_attributions_and_links_are_not_a_translation(tmp_path: Path) -> None:
    rows = [
        (n, en, fr, f"CC-BY 2.0 Attribution: tatoeba.org #{n} (CK) & #{7 * n} (sacredceltic)",
         f"https://tatoeba.org/{n}")
        for n, (fr, en) in enumerate(PAIRS)
    ]  # fmt: skip
    train = recognize_files("translation", [table(tmp_path / "a.tsv", *rows)]).train
    assert train.settings["columns"] == [1, 2]
    assert train.settings["languages"] == ["en", "fr"]
    assert "column 4 has addresses or file names" in train.findings[0]


def test_columns_named_by_role(tmp_path: Path) -> None:
    rows = [("target", "note", "source"), *((en, f"a note on it, {en}", fr) for fr, en in PAIRS)]
    settings = recognize_files("translation", [table(tmp_path / "a.tsv", *rows)]).train.settings
    assert settings["columns"] == ["source", "target"]
    assert settings["languages"] == ["fr", "en"]


def test_parquet(tmp_path: Path) -> None:
    pairs = [{"fr": fr, "en": en} for fr, en in PAIRS]
    pq.write_table(
        pa.table({"id": range(len(pairs)), "translation": pairs}), tmp_path / "a.parquet"
    )
    train = recognize_files("translation", [tmp_path / "a.parquet"]).train
    assert set(train.settings["columns"]) == {"translation.fr", "translation.en"}
    assert train.num_records == len(PAIRS)


def test_labels_in_parquet_are_refused(tmp_path: Path) -> None:
    columns = {"text": [en for _, en in PAIRS], "label": ["a", "b"] * 40}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="cannot be read from Parquet"):
        recognize_files("classification", [tmp_path / "a.parquet"])


def test_the_same_language_twice(tmp_path: Path) -> None:
    rows = [(en, f"it is that {en}") for _, en in PAIRS]
    train = recognize_files("translation", [table(tmp_path / "a.tsv", *rows)]).train
    assert train.settings["languages"] == ["source", "target"]
    assert "both texts look like English" in train.doubts[0]


def test_labels_of_a_sorted_file(tmp_path: Path) -> None:
    rows = [(f"a text that is number {n}", "pos" if n > 5000 else "neg") for n in range(9000)]
    train = recognize_files("classification", [table(tmp_path / "a.tsv", *rows)]).train
    assert "column 1 is the label (2 values: neg, pos)" in train.findings[0]


def test_split_names_are_no_labels(tmp_path: Path) -> None:
    rows = [(("train", "dev")[n % 2], f"a text, number {n}", n % 3) for n in range(60)]
    train = recognize_files("classification", [table(tmp_path / "a.tsv", *rows)]).train
    assert train.settings["columns"] == [1, 2]
    assert "column 0 names splits" in train.findings[0]


def test_two_texts_and_a_label(tmp_path: Path) -> None:
    rows = [(f"a first text {n}", f"and a second one {n}", ("yes", "no")[n % 2]) for n in range(60)]
    train = recognize_files("classification", [table(tmp_path / "a.tsv", *rows)]).train
    assert train.settings["columns"] == [0, 1, 2]


def test_lists_of_labels(tmp_path: Path) -> None:
    labels = (["a", "b"], ["b"], [])
    lines = (json.dumps({"text": f"number {n} of it", "tags": labels[n % 3]}) for n in range(60))
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    settings = recognize_files("classification", [path]).train.settings
    assert settings["keys"] == ["text", "tags"]
    assert settings["labels"] == {"separator": ","}
