"""The catalog: every data set is described, and every split can be read from real files."""

import re
from itertools import islice
from pathlib import Path

import pytest
from tests.data.sources.reading import source

from regard.data.datasets.catalog import Dataset, dataset_named, dataset_names
from regard.data.datasets.fetch import fetch
from regard.data.records import Line, Record
from regard.data.sources.hash_split import OUTSIDE_SPLIT

NAMES = dataset_names()
LINES, RECORDS = 5000, 100  # of a split that are read
RECORD_TYPES = {
    "translation": {"pair"},
    "summarization": {"pair"},
    "language-model": {"text"},
    "classification": {"labeled", "text"},
}


@pytest.mark.parametrize("name", NAMES)
def test_every_data_set_is_described(name: str) -> None:
    dataset = dataset_named(name)
    assert dataset.task in RECORD_TYPES
    used = {
        file.path
        for settings in dataset.splits
        for pair in (list(zip(dataset.languages, dataset.languages[1:], strict=False)) or [None])
        for file in dataset.files_of(dataset.settings(settings, pair))
    }
    assert used == {file.path for file in dataset.files}
    assert dataset.note or all(file.addresses for file in dataset.files)
    for file in dataset.files:
        assert all(len(checksum) == 64 for checksum in file.sha256)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_those_of_the_catalog(name: str, shared_data: Path) -> None:
    dataset = dataset_named(name)
    assert fetch(dataset, dataset.files) == shared_data / name


@pytest.mark.parametrize("name", NAMES)
def test_addresses_do_not_change(name: str) -> None:
    addresses = [url for file in dataset_named(name).files for url in file.addresses]
    assert len(set(addresses)) == len(addresses)
    for url in addresses:
        assert re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", url)


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize("name", NAMES)
def test_every_split_is_read(name: str) -> None:
    dataset = dataset_named(name)
    for split in dataset.splits:
        lines = read(dataset, split, dataset.languages[:2] or None)
        kept = [line for line in lines if isinstance(line, Record)]
        of_others = sum(getattr(line, "reason", "") == OUTSIDE_SPLIT for line in lines)
        assert kept
        assert len(kept) + of_others >= 0.98 * len(lines)
        if dataset.task == "translation":
            back = read(dataset, split, dataset.languages[1::-1])
            assert [line.texts[::-1] for line in back if isinstance(line, Record)] == [
                line.texts for line in kept
            ]


def read(dataset: Dataset, split: str, languages: tuple[str, ...] | None) -> list[Line]:
    """Return the first lines of a split."""
    reader = source(kind="dataset", name=dataset.name, split=split, languages=languages)
    assert reader.record_type in RECORD_TYPES[dataset.task]
    assert reader.language_pair == (languages or ())
    lines: list[Line] = []
    records = 0
    for line in islice(reader.records(), LINES):
        lines.append(line)
        records += isinstance(line, Record)
        if records == RECORDS:
            break
    return lines


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize(
    ("pair", "first"),
    [(("en", "fr"), "This is not a good start to the day"), (("fr", "en"), "Comme vous dites.")],
)
def test_directions_of_the_dialogues_are_apart(pair: tuple[str, str], first: str) -> None:
    lines = read(dataset_named("diabla-en-fr"), "-".join(pair), pair)
    assert next(line for line in lines if isinstance(line, Record)).texts[0] == first
