"""Splits by the hash of a key, and lists of texts in JSON lines."""

import json
from pathlib import Path

import pytest

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.records import Record, Rejected
from regard.data.sources.base import SourceSpec
from regard.data.sources.hash_split import HashSplitSpec
from regard.data.store.prepare import prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import ConfigError

NAMES = [f"{stem}{ending}" for stem in "abcdefghijklmnopqrst" for ending in ("", "-dev", "-doc")]


def source(path: Path, begin: float, end: float) -> dict[str, object]:
    share = {"column": 0, "key": "^[a-z]+", "from": begin, "to": end}
    languages = ["text", "summary"]
    return {"kind": "tsv", "path": path, "columns": [1, 2], "languages": languages, "split": share}


def test_every_line_is_in_one_split_and_equal_keys_in_the_same(tmp_path: Path) -> None:
    path = tmp_path / "packages.tsv"
    path.write_text("".join(f"{name}\ttext of {name}\tits {name}\n" for name in NAMES))
    borders = {"train": (0.0, 0.6), "dev": (0.6, 0.8), "test": (0.8, 1.0)}
    content = {part: source(path, *each) for part, each in borders.items()}
    data = validate(DataSpec, {**content, "prepared": tmp_path / "prepared"}, "recipe")
    prepared = prepare(data, TokenizerSpec.model_validate("byte"), 100)
    kept = {part: tally.kept for part, _, tally in prepared.ledger.tallies()}
    assert sum(kept.values()) == len(NAMES)
    assert all(tally.read == len(NAMES) for _, _, tally in prepared.ledger.tallies())
    assert prepared.ledger.drop_rate == 0
    assert prepared.test is not None
    for part in (prepared.dev, prepared.test):
        stems = [text.removeprefix("text of ")[0] for text in part.texts(0)]
        assert all(stems.count(stem) == 3 for stem in stems)


def test_key_is_the_match_of_the_expression() -> None:
    share = HashSplitSpec.model_validate(
        {"column": 0, "key": "^(?:lib|python-)*([a-z]+)", "to": 0.5}
    )
    assert share.contains("libxml2") == share.contains("python-xml") == share.contains("xml-doc")
    assert isinstance(share.contains("123"), bool)  # where nothing is found, all of it is the key


def lines(path: Path, content: object, **settings: object) -> list[Record | Rejected]:
    path.write_text(json.dumps(content) + "\n")
    given = {"path": path, "keys": ["source", "target"], "languages": ["text", "summary"]}
    spec = validate(SourceSpec, {"kind": "jsonl", **given, **settings}, "here")
    return list(spec.records())


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
    given = {
        "kind": "jsonl",
        "path": path,
        "keys": ["source", "target"],
        "lists": ["none", "versions"],
        "languages": ["text", "summary"],
    }
    content = {"train": given, "dev": given, "prepared": tmp_path / "prepared"}
    data = validate(DataSpec, {**content, "filters": {"eval_overlap": "keep"}}, "recipe")
    prepared = prepare(data, TokenizerSpec.model_validate("byte"), 100)
    assert list(prepared.dev.references()) == [tuple(row["target"]) for row in rows]
