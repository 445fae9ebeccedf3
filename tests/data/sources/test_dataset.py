"""Data sets by name behave as the sources that they stand for, and are written by name."""

from pathlib import Path
from typing import Any

import pytest
from tests.data.sources.reading import pairs, source

from regard.config import plain, validate
from regard.data.config import DataSpec
from regard.data.sources import files, text
from regard.data.sources.base import LabeledSpec
from regard.data.store.fingerprint import take_fingerprint
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import ConfigError, DataError

DEV = {"kind": "dataset", "name": "multi30k", "split": "dev", "languages": ["de", "en"]}


def test_a_data_set_is_read_as_its_source(shared_data: Path) -> None:
    folder = shared_data / "multi30k"
    own = files.Spec(
        source=folder / "val.de.gz", target=folder / "val.en.gz", languages=("de", "en"), weight=2
    )
    named = source(**DEV, weight=2)
    assert isinstance(named, files.Spec)
    assert plain(named, as_written=False) == plain(own)
    assert named.file_format == own.file_format
    assert pairs(**DEV)[0] == (
        "Eine Gruppe von Männern lädt Baumwolle auf einen Lastwagen",
        "A group of men are loading cotton onto a truck",
    )
    assert isinstance(source(kind="dataset", name="sst2"), LabeledSpec)


@pytest.mark.usefixtures("shared_data")
def test_a_recipe_is_written_with_the_name() -> None:
    named = source(**DEV)
    assert plain(named) == {**DEV, "settings": {}, "weight": 1.0}
    data = validate(DataSpec, {"train": DEV}, "recipe")
    assert plain(data)["train"] == [plain(named)]
    assert validate(DataSpec, plain(data), "recipe") == data


def test_prepared_data_are_those_of_the_same_files(shared_data: Path) -> None:
    folder, bytes_ = shared_data / "sst2", TokenizerSpec.model_validate("byte")
    named = {
        split: {"kind": "dataset", "name": "sst2", "split": split} for split in ("dev", "test")
    }
    own = {split: {"kind": "labeled", "path": folder / f"{split}.tsv"} for split in ("dev", "test")}
    keys = {
        take_fingerprint(
            validate(DataSpec, {"train": sources["dev"], "dev": sources["test"]}, "recipe"),
            bytes_,
            100,
        ).key
        for sources in (named, own)
    }
    assert len(keys) == 1


@pytest.mark.usefixtures("shared_data")
def test_settings_of_the_source_can_be_changed() -> None:
    given = {"kind": "dataset", "name": "tinyshakespeare", "split": "all"}
    changed = source(**given, settings={"documents": "blank"}, weight=0.5)
    assert isinstance(changed, text.Spec)
    assert (changed.documents, changed.weight) == ("blank", 0.5)
    assert source(**plain(changed)) == changed


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {"name": "multi30"},
            "there is no data set 'multi30', did you mean 'multi30k'?; data sets",
        ),
        ({"split": "valid"}, "data set multi30k has no split 'valid'.*splits: train, dev, test"),
        ({"languages": ["fr", "es"]}, "data set multi30k has no 'es'; it has: en, fr, de"),
        ({"languages": ["fr", "fr"]}, "two different ones are needed of: en, fr, de"),
        ({"languages": None}, "choose two of those of data set multi30k: en, fr, de"),
        ({"name": "sst2"}, "data set sst2 is not of pairs; leave out languages"),
        ({"settings": {"columns": [0]}}, "unknown key 'columns'"),
        ({"settings": {"path": "a"}}, "settings: the catalog has the value of path; leave it out"),
        ({"lang": "fr"}, "unknown key 'lang'"),
    ],
)
def test_what_the_catalog_does_not_have_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint.replace("?", r"\?")):
        source(**{**DEV, **changes})


def test_a_missing_data_set_is_an_error_only_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    data = validate(DataSpec, {"train": {"kind": "dataset", "name": "sst2"}}, "recipe")
    with pytest.raises(DataError) as error:
        data.fetch()
    assert str(error.value) == (
        "data.train: data set sst2 is not here and has no address to download it from (the whole "
        "sentences that are not neutral as text, tab, label; https://nlp.stanford.edu/sentiment/): "
        f"put train.tsv into {tmp_path}/data/sst2 (or another folder of REGARD_DATA)."
    )
    named = validate(DataSpec, {"train": DEV}, "recipe")
    with pytest.raises(DataError, match="is not here: `regard data get multi30k` downloads it"):
        named.fetch(download=False)
