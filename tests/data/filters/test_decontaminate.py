"""Decontamination of training data."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.filters.decontaminate import Decontaminator
from regard.data.ledger import Ledger
from regard.data.records import Location, Record
from regard.data.store import fingerprint
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import ConfigError, DataError

CHARACTERS = TokenizerSpec.model_validate({"kind": "character"})
LONG = "the film wo n't win any prizes , but it 's good `` fun '' -lrb- really -rrb-"


def prepared(folder: Path, **data: Any) -> Prepared:
    content = {"dev_size": 1, "prepared": str(folder / "prepared"), **data}
    return prepare(validate(DataSpec, content, "recipe"), CHARACTERS, 512)


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def filled(lines: list[str]) -> list[str]:
    """Add other texts, so that some records are kept."""
    return [*lines, *(f"sentence number {n} of many" for n in range(60))]


def left(found: Prepared) -> list[str]:
    rows = [store.row(n)[0] for store in (found.train, found.dev) for n in range(len(store))]
    return [found.tokenizer.decode(row.tolist()) for row in rows]


def test_excluded_text_is_found_however_written(tmp_path: Path) -> None:
    ways = [
        LONG,
        "The film won't win any prizes, but it's good “fun” (really)!",
        "THE FILM WON’T WIN ANY PRIZES - BUT IT'S GOOD FUN ... REALLY",
        "Well. The film won't win any prizes, but it's good fun; really. See it.",
    ]
    others = [
        "the film won't win any prizes, but it's no good fun really",
        "good fun",  # is part of one that is kept out, and not the other way about
        "this is very good, is it not",  # has one that is too short to count within a line
    ]
    train = written(tmp_path / "train.txt", *filled([*ways, *others, "Very good!"]))
    test = written(tmp_path / "test.tsv", f"{LONG}\t1", "very good\t1", "???\t0")
    for documents in ("line", "blank", "file"):
        found = prepared(
            tmp_path,
            train={"kind": "text", "path": train, "documents": documents},
            dev={"kind": "text", "path": written(tmp_path / "dev.txt", "something else")},
            exclude={"kind": "labeled", "path": test},
        )
        lines = "\n".join(left(found)).replace("something else", "").split("\n")
        assert sorted(filter(None, lines)) == sorted(filled(others))
        tallies = {(part, Path(source).name): t for part, source, t in found.ledger.tallies()}
        assert tallies["train", "train.txt"].dropped["excluded"].count == 5
        assert tallies["train", "train.txt"].dropped["excluded"].first[0].line == 1
        assert tallies["exclude", "test.tsv"].kept == 3
        assert found.ledger.drop_rate == 0  # it was asked for


def test_labeled_texts_and_pairs_are_excluded_by_their_texts(tmp_path: Path) -> None:
    train = written(tmp_path / "a.tsv", *(f"{text}\tgood" for text in filled([LONG])))
    other = written(tmp_path / "other.txt", LONG.upper(), "good")  # a label is no text
    found = prepared(
        tmp_path,
        train={"kind": "labeled", "path": train},
        exclude={"kind": "text", "path": other, "documents": "line"},
    )
    assert sorted(left(found)) == sorted(filled([]))
    pairs = written(tmp_path / "pairs.tsv", *(f"{text}\tc'est {text}" for text in filled([LONG])))
    found = prepared(
        tmp_path,
        train={"kind": "tsv", "path": pairs, "languages": ["en", "fr"]},
        exclude=[{"kind": "labeled", "path": written(tmp_path / "b.tsv", f"c'est {LONG}\t0")}],
    )
    assert len(found.train) + len(found.dev) == 60


def test_short_excluded_text_can_be_ignored(tmp_path: Path) -> None:
    train = written(tmp_path / "train.txt", *filled(["Hello!", "Very good!", f"It is so. {LONG}"]))
    test = written(tmp_path / "test.tsv", "hello\t1", "very good\t1", f"{LONG}\t0")
    dropped = {1: 3, 6: 2, 9: 1, 99: 0}
    for letters, count in dropped.items():
        found = prepared(
            tmp_path,
            train={"kind": "text", "path": train, "documents": "line"},
            exclude={"kind": "labeled", "path": test},
            filters={"exclude_min_letters": letters},
        )
        assert len(found.train) + len(found.dev) == 63 - count


@settings(deadline=None)
@given(st.lists(st.sampled_from(["excluded", "good", "bad", ""]), min_size=1, max_size=8))
def test_only_matching_lines_of_running_text_are_dropped(lines: list[str]) -> None:
    spec = validate(DataSpec, {"train": {"kind": "text", "path": "a"}, "dev_size": 1}, "recipe")
    without = Decontaminator(spec, Ledger())
    without._add(["Excluded!"])
    text = "\n".join([*lines, "end"])
    for ends in (True, False):
        found = list(without.filter([Record(Location("a", 5), (text,), ends)]))
        kept = [each for each in found if isinstance(each, Record)]
        rest = [line for line in lines if line != "excluded"]
        assert "".join(each.texts[0] for each in kept) == "\n".join([*rest, "end"])
        assert [each.ends_document for each in kept] == [False] * (len(kept) - 1) + [ends]
        for each in kept:
            first = each.texts[0].split("\n")[0]
            assert text.split("\n")[each.location.line - 5] == first


def test_excluded_sources_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    train = {"kind": "text", "path": written(tmp_path / "train.txt", "a"), "documents": "line"}
    test = written(tmp_path / "test.tsv", "a\t1")

    def key(**more: Any) -> str:
        content = {"train": train, "prepared": str(tmp_path / "prepared"), **more}
        return fingerprint.take_fingerprint(
            validate(DataSpec, content, "recipe"), CHARACTERS, 10
        ).key

    plain, source = key(), {"kind": "labeled", "path": test}
    assert key(exclude=None) == plain
    with_it = key(exclude=source)
    assert with_it != plain
    assert key(exclude=[source]) == key(exclude={**source, "weight": 2}) == with_it
    written(tmp_path / "test.tsv", "b\t1")
    assert key(exclude=source) != with_it


def test_unreadable_excluded_sources_are_reported(tmp_path: Path) -> None:
    train = {"kind": "text", "path": written(tmp_path / "t.txt", *filled([])), "documents": "line"}
    with pytest.raises(DataError, match=r"nowhere.tsv: cannot be read"):
        prepared(tmp_path, train=train, exclude={"kind": "labeled", "path": "nowhere.tsv"})
    with pytest.raises(ConfigError, match="there is no kind 'nothing'"):
        prepared(tmp_path, train=train, exclude={"kind": "nothing"})
    (tmp_path / "bad.tsv").write_bytes(b"good \xff text\t1\nfine text\t0\n")
    found = prepared(
        tmp_path,
        train=train,
        filters={"max_dropped": 0.6},
        exclude={"kind": "labeled", "path": str(tmp_path / "bad.tsv")},
    )
    content = json.loads(found.ledger.to_json())["exclude"]
    (tally,) = content.values()
    assert (tally["read"], tally["kept"]) == (2, 1)
    everything = {"kind": "text", "path": train["path"], "documents": "line"}
    with pytest.raises(DataError, match="none of the 60 lines for train is left"):
        prepared(tmp_path, train=train, exclude=everything)


def test_movie_reviews_are_decontaminated_of_sst2(tmp_path: Path, shared_data: Path) -> None:
    """1,421 test sentences are lines of the reviews, and more are parts of lines."""
    reviews = shared_data / "movie-reviews"
    train = {"kind": "text", "path": str(reviews), "documents": "line"}
    test = shared_data / "sst2" / "test.tsv"
    found = prepared(tmp_path, train=train, exclude={"kind": "labeled", "path": str(test)})
    tally = next(t for part, _, t in found.ledger.tallies() if part == "train")
    assert 1421 <= tally.dropped["excluded"].count <= 1821
    rest = "|".join(_letters(text) for text in left(found))
    sentences = [_letters(line.split("\t")[0]) for line in test.read_text("utf-8").splitlines()]
    assert not [each for each in sentences if len(each) >= 24 and each in rest]


def _letters(text: str) -> str:
    return "".join(each for each in text.casefold() if each.isalnum())
