"""Splits by the hash of a key."""

from pathlib import Path

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.sources.hash_split import HashSplitSpec
from regard.data.store.prepare import prepare
from regard.data.tokenizers.base import TokenizerSpec

NAMES = [f"{stem}{ending}" for stem in "abcdefghijklmnopqrst" for ending in ("", "-dev", "-doc")]


def source(path: Path, begin: float, end: float) -> dict[str, object]:
    spec = {"column": 0, "key": "^[a-z]+", "from": begin, "to": end}
    languages = ["text", "summary"]
    return {
        "kind": "tsv",
        "path": path,
        "columns": [1, 2],
        "languages": languages,
        "split": spec,
    }


def test_every_line_is_in_one_split_and_equal_keys_in_the_same(tmp_path: Path) -> None:
    path = tmp_path / "packages.tsv"
    path.write_text("".join(f"{name}\ttext of {name}\tits {name}\n" for name in NAMES))
    ranges = {"train": (0.0, 0.6), "dev": (0.6, 0.8), "test": (0.8, 1.0)}
    content = {split: source(path, *edges) for split, edges in ranges.items()}
    data = validate(DataSpec, {**content, "prepared": tmp_path / "prepared"}, "recipe")
    prepared = prepare(data, TokenizerSpec.model_validate("byte"), 100)
    kept = {split: tally.kept for split, _, tally in prepared.ledger.tallies()}
    assert sum(kept.values()) == len(NAMES)
    assert all(tally.read == len(NAMES) for _, _, tally in prepared.ledger.tallies())
    assert prepared.ledger.drop_rate == 0
    assert prepared.test is not None
    for store in (prepared.dev, prepared.test):
        stems = [text.removeprefix("text of ")[0] for text in store.texts(0)]
        assert all(stems.count(stem) == 3 for stem in stems)


def test_key_is_the_match_of_the_expression() -> None:
    spec = HashSplitSpec.model_validate(
        {"column": 0, "key": "^(?:lib|python-)*([a-z]+)", "to": 0.5}
    )
    assert spec.contains("libxml2") == spec.contains("python-xml") == spec.contains("xml-doc")
    assert isinstance(spec.contains("123"), bool)  # without a match the cell is the key
