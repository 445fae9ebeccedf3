"""Pairs in JSON lines, and lists of sentences or versions."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.sources.reading import FR_EN, any_fixture, pairs, read, write

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.records import Location, Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.data.store.prepare import prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import ConfigError


@any_fixture
@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.booleans())
def test_jsonl_restores_any_text(
    tmp_path: Path, texts: list[tuple[str, str]], ascii_only: bool
) -> None:
    lines = [{"id": 1, "translation": {"fr": fr, "en": en}} for fr, en in texts]
    dumped = [json.dumps(line, ensure_ascii=ascii_only) for line in lines]
    path = write(tmp_path / "a.jsonl", "\n".join(dumped))
    keys = ["translation.fr", "translation.en"]
    assert pairs(kind="jsonl", path=path, keys=keys, **FR_EN) == texts


@pytest.mark.parametrize(
    ("line", "why", "found"),
    [
        ('{"fr": "un", "en": "one"', "bad JSON", "Expecting"),
        ("", "bad JSON", "Expecting value"),
        ("[" * 100_000, "bad JSON", "recursion"),
        ('{"fr": "un"}', "missing text", "there is no en"),
        ('{"fr": null, "en": "one"}', "missing text", "there is no fr"),
        ('{"fr": "un", "en": ["one"]}', "missing text", "en is a list"),
        ('["un", "one"]', "missing text", "there is no fr"),
        (b'{"fr": "\xff", "en": "one"}', "invalid UTF-8", "byte 9 is 0xff"),
    ],
)
def test_jsonl_rejects_invalid_lines(
    tmp_path: Path, line: str | bytes, why: str, found: str
) -> None:
    path = write(tmp_path / "a.jsonl", line if line else "\n")
    (rejected,) = read(kind="jsonl", path=path, keys=["fr", "en"], **FR_EN)
    assert isinstance(rejected, Rejected)
    assert (rejected.location, rejected.reason) == (Location(path, 1), why)
    assert found in rejected.detail


def lines(path: Path, content: object, **settings: object) -> list[Record | Rejected]:
    path.write_text(json.dumps(content) + "\n")
    spec = {"path": path, "keys": ["source", "target"], "languages": ["text", "summary"]}
    source_spec = validate(SourceSpec, {"kind": "jsonl", **spec, **settings}, "here")
    return list(source_spec.records())


def test_jsonl_lists_are_sentences_or_versions(tmp_path: Path) -> None:
    content = {"source": ["One.", "Two."], "target": ["first", "second"]}
    path = tmp_path / "texts.jsonl"
    (record,) = lines(path, content, lists=["sentences", "versions"])
    assert isinstance(record, Record)
    assert record.texts == ("One. Two.", "first")
    assert record.alternatives == ("second",)
    (refused,) = lines(path, content)
    assert isinstance(refused, Rejected)
    assert refused.detail == "source is a list"
    for bad in ([], ["a", 3], None):
        (refused,) = lines(path, {**content, "target": bad}, lists=["sentences", "versions"])
        assert isinstance(refused, Rejected)
        assert refused.reason == "missing text"
    with pytest.raises(ConfigError, match="only the second text may have versions"):
        lines(path, content, lists=["versions", "none"])


def test_all_versions_are_references_for_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    rows = [{"source": f"text {n}", "target": [f"a{n}", f"b{n}"][: n % 2 + 1]} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    spec = {
        "kind": "jsonl",
        "path": path,
        "keys": ["source", "target"],
        "lists": ["none", "versions"],
        "languages": ["text", "summary"],
    }
    content = {"train": spec, "dev": spec, "prepared": tmp_path / "prepared"}
    data = validate(DataSpec, {**content, "filters": {"eval_overlap": "keep"}}, "recipe")
    prepared = prepare(data, TokenizerSpec.model_validate("byte"), 100)
    assert list(prepared.dev.references()) == [tuple(row["target"]) for row in rows]
