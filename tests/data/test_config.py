"""The data section of a recipe."""

from pathlib import Path
from typing import Any

import pytest

from regard.config import validate
from regard.data.config import DataSpec, Direction
from regard.data.records import Record
from regard.errors import ConfigError

FR_EN = {"kind": "tsv", "path": "fr-en.tsv", "languages": ["fr", "en"]}
LABELLED = {"kind": "labeled", "path": "rated.tsv"}
DE_EN = {"kind": "tsv", "path": "de-en.tsv", "languages": ["de", "en"]}


def spec(**given: Any) -> DataSpec:
    return validate(DataSpec, given, "recipe.yaml: data")


def test_single_source_is_a_list_of_one() -> None:
    assert spec(train=FR_EN) == spec(train=[FR_EN])
    assert spec(train="grammar", dev="grammar").dev == spec(train="grammar").train


def test_all_available_directions_are_used_by_default() -> None:
    both = [Direction("fr", "en"), Direction("en", "fr")]
    assert list(spec(train=FR_EN).translation_directions) == both
    assert list(spec(train=[FR_EN, FR_EN, DE_EN]).translation_directions) == [
        *both,
        ("de", "en"),
        ("en", "de"),
    ]
    assert spec(train=[FR_EN, DE_EN]).languages == ("fr", "en", "de")
    assert list(spec(train=FR_EN, directions=["en-fr"]).translation_directions) == both[1:]
    back = {**FR_EN, "directions": ["fr-en"]}
    assert list(spec(train=back).translation_directions) == both[:1]
    assert list(spec(train=[back, FR_EN]).translation_directions) == both


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"train": [{**FR_EN, "weight": [1, 0]}, {**FR_EN, "weight": [0, 0, 2]}]},
            "all sources of train have the weight 0 in epoch 2",
        ),
        ({"train": {**FR_EN, "weight": -1}}, "from 0 to 1,000, not -1"),
        ({"train": {**FR_EN, "weight": [1, "x"]}}, "from 0 to 1,000, not 'x'"),
        ({"train": {**FR_EN, "weight": [0]}}, "leave the source out"),
        ({"train": []}, "train has no source"),
        (
            {"train": LABELLED, "dev": {**LABELLED, "columns": [0, 1, 2]}},
            "the same number of texts, and train and dev have sources with 1 and 2 beside",
        ),
        ({"train": FR_EN, "dev_size": 0}, "nothing to evaluate on: give dev"),
        (
            {"train": FR_EN, "directions": ["fr-de"]},
            "no source offers the direction fr-de; there are: fr-en, en-fr",
        ),
        (
            {"train": [FR_EN, DE_EN], "directions": ["fr-en"]},
            "train has a source in de and en, and none of the directions is between them",
        ),
        (
            {"train": {**FR_EN, "directions": ["fr-de"]}},
            "'fr-de' is not a direction of these pairs; there are: fr-en, en-fr",
        ),
        (
            {"train": FR_EN, "dev": {"kind": "text", "path": "a.txt"}},
            "all sources must have one record type, and train and dev have: pair, text",
        ),
    ],
)
def test_inconsistent_data_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        spec(**given)


def test_running_text_without_dev_is_read_in_chunks(tmp_path: Path) -> None:
    lines = [f"line {number} of a long book\n" for number in range(2000)]
    (tmp_path / "book.txt").write_text("".join(lines))
    source = {"kind": "text", "path": str(tmp_path / "book.txt")}
    data = spec(train=source)
    records = [each for each in data.read(data.train[0]) if isinstance(each, Record)]
    assert "".join(record.texts[0] for record in records) == "".join(lines)
    assert len(records) > 5
    assert [record.ends_document for record in records] == [False] * (len(records) - 1) + [True]
    for record in records:
        assert record.texts[0].startswith(lines[record.location.line - 1])
    assert sum(record.lines for record in records) == len(lines)
    whole = spec(train=source, dev=source)
    assert len(list(whole.read(whole.train[0]))) < len(records)
