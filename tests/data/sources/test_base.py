"""Properties of all kinds of sources."""

from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.reading import FR_EN, read, source

from regard.config import kinds, plain, validate
from regard.data.sources.base import SourceSpec
from regard.errors import ConfigError, DataError

EXAMPLES: dict[str, dict[str, Any]] = {
    "agreement": {"path": "a.conllu", "attracted": True},
    "by-file": {"classes": {"good": "a.pos", "bad": ["b.neg", "c.neg"]}},
    "conllu": {"path": "a.conllu", "comment": "mood"},
    "csv": {"path": "a.csv", "header": True, "columns": ["fr", "en"], **FR_EN},
    "dataset": {"name": "multi30k", "split": "dev", **FR_EN},
    "edited": {
        "source": {"kind": "tsv", "path": "a.tsv", **FR_EN},
        "edits": ["lowercase"],
        "weight": [1, 0.5],
    },
    "files": {"source": "a.fr", "target": "a.en", **FR_EN},
    "grammar": {"split": "pronouns"},
    "hub": {"name": "owner/set", "columns": ["fr", "en"], **FR_EN},
    "jsonl": {"path": "a.jsonl", "keys": ["translation.fr", "translation.en"], **FR_EN},
    "labeled": {"path": "a.tsv", "columns": [0, 2, 1], "labels": {"separator": ";"}},
    "labeled-csv": {"path": "a.csv", "separator": ";", "encoding": "cp1252"},
    "labeled-jsonl": {"path": "a.jsonl", "labels": {"separator": ",", "none": "-"}},
    "parquet": {"path": "a", "split": "train", "columns": ["fr", "en"], **FR_EN},
    "parsed": {"path": "a.tsv", "parser": "fr_core_news_sm"},
    "po": {"path": "fr.po", "languages": ["en", "fr"]},
    "text": {"path": ["a.txt", "b/"], "documents": "blank", "fraction": [0, 0.9]},
    "tsv": {"path": "a.tsv", "columns": [2, 0], **FR_EN},
}

OTHER_FILES = {"dataset", "edited", "grammar", "hub", "parsed"}  # kinds without a path of their own


def test_every_kind_survives_a_yaml_round_trip() -> None:
    assert sorted(EXAMPLES) == kinds("regard.data.sources")
    for kind, example in EXAMPLES.items():
        spec = source(kind=kind, **example)
        assert validate(SourceSpec, plain(spec), "recipe") == spec
        assert spec.as_written().kind() == kind
        assert len(spec.language_pair) == (2 if spec.record_type == "pair" else 0)


@pytest.mark.parametrize(
    ("languages", "complaint"),
    [
        (["fr", "fr"], "languages: a pair has two languages, and both of these are 'fr'"),
        (["fr", "en us"], "letters, digits, - and _, not 'en us'"),
        (["fr", ""], "letters, digits, - and _, not ''"),
        ([False, "en"], "write Norwegian as 'no', in quotes"),
        (["fr"], "languages"),
        ("fr-en", "languages"),
    ],
)
def test_languages_must_be_two_names(languages: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        source(kind="tsv", path="a.tsv", languages=languages)
    assert source(kind="tsv", path="a", languages=["pt_BR", "zh-Hans"]).language_pair == (
        "pt_BR",
        "zh-Hans",
    )


@pytest.mark.parametrize("kind", sorted(EXAMPLES.keys() - OTHER_FILES))
def test_missing_file_is_reported(tmp_path: Path, kind: str) -> None:
    given = EXAMPLES[kind] | {"path": tmp_path / "nowhere"}
    if kind == "by-file":
        given = {"classes": {"good": tmp_path / "nowhere"}}
    if kind == "files":
        given = {"source": tmp_path / "nowhere", "target": tmp_path / "nowhere", **FR_EN}
    with pytest.raises(DataError, match=r"nowhere: (cannot be read \(No|there is no) such file"):
        read(kind=kind, **given)
