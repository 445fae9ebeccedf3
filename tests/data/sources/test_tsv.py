"""Tables with tabs: pairs and labeled texts; labeled JSON lines; one file for each label."""

from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.reading import FR_EN, pairs, read, source, write

from regard.data.records import Location, Record, Rejected
from regard.errors import ConfigError


def test_tsv_reads_two_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "le chat\tthe cat\nle chien\tthe dog")
    assert pairs(kind="tsv", path=path, **FR_EN) == [
        ("le chat", "the cat"),
        ("le chien", "the dog"),
    ]
    path = write(tmp_path / "b.tsv", "1\tthe cat\tle chat\tCC-BY\n")
    assert pairs(kind="tsv", path=path, columns=[2, 1], **FR_EN) == [("le chat", "the cat")]


@pytest.mark.parametrize("bad", ["one column", "three\tcolumns\there", ""])
def test_tsv_rejects_lines_of_another_width(tmp_path: Path, bad: str) -> None:
    path = write(tmp_path / "a.tsv", f"bon\tgood\n{bad}\nmal\tbad\n")
    good, rejected, also_good = read(kind="tsv", path=path, **FR_EN)
    shown = [f"{number} {cell!r}" for number, cell in enumerate(bad.split("\t"))]
    read_as = [f"{cell} (read as {name})" for cell, name in zip(shown, ("fr", "en"), strict=False)]
    detail = f"{len(shown)} instead of 2: {', '.join(read_as + shown[2:])}"
    assert rejected == Rejected(Location(path, 2), "wrong columns", detail)
    assert isinstance(good, Record)
    assert isinstance(also_good, Record)


def test_tsv_rejects_a_first_line_that_is_too_narrow(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "# pairs\nbon\tgood\n")
    assert [type(line) for line in read(kind="tsv", path=path, **FR_EN)] == [Rejected, Record]


def test_labeled_reads_text_and_label(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", b"fine\t1\nbad\xff\t0\nno label\n")
    lines = read(kind="labeled", path=path)
    assert lines[0] == Record(Location(path, 1), ("fine",), labels=("1",))
    assert [line.reason for line in lines if isinstance(line, Rejected)] == [
        "invalid UTF-8",
        "wrong columns",
    ]


def test_real_labeled_files_are_read(shared_data: Path) -> None:
    path = shared_data / "tatoeba-fr-en" / "dev.tsv.gz"
    read_pairs = pairs(kind="tsv", path=path, **FR_EN)
    assert (len(read_pairs), read_pairs[0]) == (1733, ("J’ai fait signe.", "I waved."))
    rated = read(kind="labeled", path=shared_data / "sst2" / "dev.tsv")
    assert {line.labels for line in rated if isinstance(line, Record)} == {("0",), ("1",)}


def test_labeled_reads_text_pairs_and_several_labels(tmp_path: Path) -> None:
    table = "one\ttwo\tnews; sport ;news\na\tb\t-\nc\td\tnews;;sport\ne\tf\t \n"
    path = write(tmp_path / "a.tsv", table)
    written = {"separator": ";", "none": "-"}
    lines = read(kind="labeled", path=path, columns=[0, 1, 2], labels=written)
    assert lines == [
        Record(Location(path, 1), ("one", "two"), labels=("news", "sport")),
        Record(Location(path, 2), ("a", "b"), labels=()),
        Rejected(Location(path, 3), "empty label", "a label is missing in 'news;;sport'"),
        Rejected(Location(path, 4), "empty label", "a label is missing in ' '"),
    ]
    (first, *_) = read(kind="labeled", path=path, columns=[0, 2])
    assert first == Record(Location(path, 1), ("one",), labels=("news; sport ;news",))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"columns": [0]}, "columns: tuple should have at least 2 items"),
        ({"columns": [0, 1, 2, 3]}, "columns: tuple should have at most 3 items"),
        ({"labels": {"none": "-"}}, "labels: none: only where a text may have several"),
        ({"labels": {"separator": ""}}, "labels.separator"),
    ],
)
def test_invalid_labeled_spec_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        source(kind="labeled", path="a.tsv", **given)


def test_labeled_jsonl_reads_labels(tmp_path: Path) -> None:
    lines = ['{"text": "a\\nb", "label": "x"}', '{"text": "b", "label": 1}']
    lines += ['{"text": "c", "label": ["x", "y"]}', '{"text": "d", "label": []}', '{"text": "e"}']
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    one, number, two, none, missing = read(kind="labeled-jsonl", path=path)
    assert one == Record(Location(path, 1), ("a\nb",), labels=("x",))
    assert one.lines == 1
    assert number == Record(Location(path, 2), ("b",), labels=("1",))
    assert isinstance(two, Rejected)
    assert "there are 2; labels: {separator" in two.detail
    assert isinstance(none, Rejected)
    assert missing == Rejected(Location(path, 5), "missing label", "label is missing")
    given = {"path": path, "labels": {"separator": ","}, "keys": ["text", "text", "label"]}
    several = read(kind="labeled-jsonl", **given)
    assert several[2:4] == [
        Record(Location(path, 3), ("c", "c"), labels=("x", "y")),
        Record(Location(path, 4), ("d", "d"), labels=()),
    ]


def test_by_file_labels_lines_by_file(tmp_path: Path, shared_data: Path) -> None:
    good = write(tmp_path / "good", "fine\nsuperb")
    bad = write(tmp_path / "bad", b"dull\n\xff")
    lines = read(kind="by-file", classes={"+": good, "-": [bad, bad]})
    dull = Record(Location(bad, 1), ("dull",), labels=("-",))
    assert lines[:3] == [
        Record(Location(good, 1), ("fine",), labels=("+",)),
        Record(Location(good, 2), ("superb",), labels=("+",)),
        dull,
    ]
    assert isinstance(lines[3], Rejected)
    assert lines[4] == dull
    with pytest.raises(ConfigError, match=r"classes: .*False is not: write it in quotes"):
        source(kind="by-file", classes={False: good, "yes": bad})
    folder = shared_data / "movie-reviews"
    real = {"positive": folder / "rt-polarity.pos", "negative": folder / "rt-polarity.neg"}
    reviews = read(kind="by-file", classes=real)
    assert sum(isinstance(each, Record) for each in reviews) == 2 * 5331
