"""Advice on tables: headers, ids, swapped columns and other separators."""

from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.reading import FR_EN, source, write

from regard.data.sources.columns import looks_like_header
from regard.data.sources.table_advice import explain_columns, table_warnings

TEXTS = [f"a text of some length, number {n}" for n in range(10)]
LABELS = [f"class {n % 2}" for n in range(10)]


def table(path: Path, *columns: list[str]) -> str:
    return write(path, "".join("\t".join(row) + "\n" for row in zip(*columns, strict=True)))


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["French", "English"], True),
        (["review_text", "gold_label"], True),
        (["sentence1", "sentence2", "label"], True),
        (["A good text.", "positive"], False),
        (["Besprechung", "Stimmung"], True),
        (["the label of this text is long", "Stimmung"], False),
        (["le chat", "the cat"], False),
    ],
)
def test_headers(cells: list[str], expected: bool) -> None:
    assert looks_like_header(cells, rare={"Stimmung"}) == expected


@pytest.mark.parametrize(
    ("columns", "spec", "advice"),
    [
        ([LABELS, TEXTS], {}, "columns 0 and 1 look swapped: set columns: [1, 0]"),
        ([[f"id{n}" for n in range(10)], TEXTS, LABELS], {}, "an id: set columns: [1, 2]"),
        ([TEXTS, TEXTS, LABELS], {}, "column 2 looks like the label: set columns: [0, 2]"),
        ([TEXTS, LABELS, TEXTS], {"columns": [0, 2]}, "column 1 looks like the label"),
    ],
)
def test_columns_that_look_wrong(
    tmp_path: Path, columns: list[list[str]], spec: dict[str, Any], advice: str
) -> None:
    path = table(tmp_path / "a.tsv", *columns)
    assert advice in explain_columns(source(kind="labeled", path=path, **spec))


def test_columns_that_look_right_have_no_advice(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", TEXTS, LABELS)
    explained = explain_columns(source(kind="labeled", path=path))
    assert explained == (
        "line 1 has the columns 0 'a text of some length, number …' (read as text), "
        "1 'class 0' (read as label)"
    )
    assert list(table_warnings(source(kind="labeled", path=path))) == []
    assert explain_columns(source(kind="labeled", path=write(tmp_path / "b", ""))) == ""
    assert explain_columns(source(kind="grammar")) == ""


@pytest.mark.parametrize(
    ("kind", "content", "advice"),
    [
        ("tsv", "le chat,the cat\n", "use kind: csv"),
        ("tsv", "le chat;the cat\n", "use kind: csv with separator: ';'"),
        ("csv", "le chat;the cat\n", "set separator: ';'"),
        ("csv", "le chat\tthe cat\n", 'separator: "\\t"'),
    ],
)
def test_other_separators(tmp_path: Path, kind: str, content: str, advice: str) -> None:
    path = write(tmp_path / "a", content * 3)
    assert advice in explain_columns(source(kind=kind, path=path, **FR_EN))


def test_pairs_with_ids_are_a_warning(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", [f"{n}" for n in range(10)], TEXTS, [*reversed(TEXTS)])
    (warning,) = table_warnings(source(kind="tsv", path=path, **FR_EN))
    assert "column 0 is read as fr; column 0 looks like an id: set columns: [1, 2]" in warning
