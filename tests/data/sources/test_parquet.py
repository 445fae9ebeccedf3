"""Parquet files."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.data.sources.reading import COLUMNS, FR_EN, pairs, parquet, read, table

from regard.data.records import Location, Record, Rejected
from regard.errors import DataError


def test_parquet_reads_columns(tmp_path: Path) -> None:
    texts = [(f"un {n}", f"one {n}") for n in range(10)]
    path = parquet(tmp_path / "a.parquet", table(*texts))
    assert pairs(kind="parquet", path=path, **COLUMNS) == texts
    assert read(kind="parquet", path=path, **COLUMNS)[6].location == Location(path, 7)


@pytest.mark.parametrize(
    "text_type", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_parquet_reads_nested_columns(tmp_path: Path, text_type: pa.DataType) -> None:
    fr, en = (pa.array(side, pa.string()).cast(text_type) for side in (["un", None], ["one", "2"]))
    rows = pa.StructArray.from_arrays([fr, en], ["fr", "en"])
    path = parquet(tmp_path / "a.parquet", pa.table({"translation": rows}))
    columns = ["translation.fr", "translation.en"]
    assert read(kind="parquet", path=path, columns=columns, **FR_EN) == [
        Record(Location(path, 1), ("un", "one")),
        Rejected(Location(path, 2), "missing text", "translation.fr is null"),
    ]


def test_parquet_rejects_only_the_row_with_invalid_utf8(tmp_path: Path) -> None:
    raw = pa.array([b"un", b"\xff"], pa.binary()).view(pa.string())
    path = parquet(tmp_path / "a.parquet", pa.table({"fr": raw, "en": ["one", "two"]}))
    assert read(kind="parquet", path=path, **COLUMNS) == [
        Record(Location(path, 1), ("un", "one")),
        Rejected(Location(path, 2), "invalid UTF-8", "byte 1 is 0xff"),
    ]


def test_parquet_reads_a_folder_and_its_splits(tmp_path: Path) -> None:
    names = ["train-00001-of-00002", "train-00000-of-00002", "test", "more/train/0", "training"]
    for name in [*names, ".cache/train-0"]:
        parquet(tmp_path / f"{name}.parquet", table((name, "x")))

    def firsts(split: str) -> list[str]:
        given = {"kind": "parquet", "path": tmp_path, "split": split, **COLUMNS}
        return [first for first, _ in pairs(**given)]

    assert firsts("") == ["more/train/0", *sorted(names[:3] + names[4:])]
    assert firsts("train") == ["more/train/0", names[1], names[0]]
    with pytest.raises(DataError, match=r"is of the split 'dev'; the first is more/train/0\.parq"):
        firsts("dev")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: there is no file \*\.parquet in this folder"):
        read(kind="parquet", path=tmp_path / "empty", **COLUMNS)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["fr", "de"], "there is no column de; instead of 'de' there are: id, fr, en"),
        (["fr.x", "en"], "there is no column fr.x; instead of 'x' there are: no columns"),
        (["id", "en"], "the column id holds int64 and not text"),
    ],
)
def test_parquet_reports_missing_columns(
    tmp_path: Path, columns: list[str], complaint: str
) -> None:
    path = parquet(tmp_path / "a.parquet", table(("un", "one")))
    with pytest.raises(DataError, match=f"a.parquet: {complaint}"):
        read(kind="parquet", path=path, columns=columns, **FR_EN)


def test_damaged_parquet_is_reported(tmp_path: Path) -> None:
    path = Path(parquet(tmp_path / "a.parquet", table(*[("un", "one")] * 1000)))
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:8] + bytes(200) + whole[208:], b"", b"a\tb\n"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet") as caught:
            read(kind="parquet", path=path, **COLUMNS)
        assert "\n" not in str(caught.value)
