"""Preparing data: ledger, deduplication, reuse, atomic folders."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.ledger import Ledger, Tally
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError, OutputError

BYTE = TokenizerSpec.model_validate("byte")
PAIRS = [(f"le chat numéro {n}", f"the cat number {n}") for n in range(200)]


def tsv(path: Path, pairs: list[tuple[str, ...]]) -> dict[str, Any]:
    path.write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    return {"kind": "tsv", "path": str(path), "languages": ["fr", "en"]}


def made(folder: Path, tokenizer: TokenizerSpec = BYTE, limit: int = 100, **given: Any) -> Prepared:
    data = validate(DataSpec, {"prepared": str(folder / "prepared"), **given}, "recipe")
    return prepare(data, tokenizer, limit)


def tally(ledger: Ledger, part: str) -> Tally:
    (found,) = [each for name, _, each in ledger.tallies() if name == part]
    return found


def counts(ledger: Ledger, part: str) -> dict[str, int]:
    return {why: cause.count for why, cause in tally(ledger, part).dropped.items()}


def texts(prepared: Prepared) -> list[tuple[str, str]]:
    """Decode the training pairs from their ids."""
    rows = map(prepared.train.row, range(len(prepared.train)))
    decode = prepared.tokenizer.decode
    return [(decode(first.tolist()), decode(second.tolist())) for first, second in rows]


def test_splits_contain_the_records_of_the_sources(tmp_path: Path) -> None:
    train, dev = tsv(tmp_path / "train.tsv", PAIRS[:150]), tsv(tmp_path / "dev.tsv", PAIRS[150:])
    prepared = made(tmp_path, train=train, dev=dev)
    assert texts(prepared) == PAIRS[:150]
    assert list(zip(prepared.dev.texts(0), prepared.dev.texts(1), strict=True)) == PAIRS[150:]
    assert prepared.test is None
    assert prepared.languages == ("fr", "en")
    assert not prepared.reused
    files = {path.name for path in prepared.folder.iterdir()}
    assert files == {
        "train.arrow",
        "dev.arrow",
        "tokenizer.json",
        "languages.json",
        "ledger.json",
        "fingerprint.json",
    }


def test_ledger_accounts_for_every_line(tmp_path: Path) -> None:
    bad = [
        ("", "an empty side"),
        ("one column",),
        ("\x00 odd", "odd"),
        ("long " * 30, "long " * 30),
        PAIRS[0],  # a duplicate
        PAIRS[190],  # in dev
        PAIRS[191],  # in test
    ]
    prepared = made(
        tmp_path,
        train=tsv(tmp_path / "train.tsv", PAIRS[:100] + bad),
        dev=tsv(tmp_path / "dev.tsv", [PAIRS[190], ("", "empty")]),
        test=tsv(tmp_path / "test.tsv", [PAIRS[191]]),
        filters={"max_dropped": 0.6},
    )
    assert texts(prepared) == PAIRS[:100]
    assert counts(prepared.ledger, "train") == {
        "empty side": 1,
        "wrong columns": 1,
        "odd character": 1,
        "over the limit": 1,
        "duplicate": 1,
        "in dev or test": 2,
    }
    assert tally(prepared.ledger, "train").read == 107
    assert tally(prepared.ledger, "train").kept == 100
    assert tally(prepared.ledger, "dev").read == 2
    assert counts(prepared.ledger, "dev") == {"empty side": 1}
    (example,) = tally(prepared.ledger, "train").dropped["duplicate"].first
    assert (example.file, example.line) == (str(tmp_path / "train.tsv"), 105)


def test_duplicates_can_be_kept(tmp_path: Path) -> None:
    prepared = made(
        tmp_path,
        train=tsv(tmp_path / "train.tsv", PAIRS[:50] + PAIRS[:50]),
        dev=tsv(tmp_path / "dev.tsv", PAIRS[:5]),
        filters={"duplicates": "keep", "eval_overlap": "keep"},
    )
    assert texts(prepared) == PAIRS[:50] + PAIRS[:50]


def test_duplicates_are_found_in_several_hash_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.filters.deduplicate.RANGE", 16)
    monkeypatch.setattr("regard.data.store.writer.ROWS", 10)
    order = np.random.default_rng(0).integers(len(PAIRS), size=500)
    drawn = [PAIRS[index] for index in order]
    first = tsv(tmp_path / "a.tsv", drawn[:300])
    second = tsv(tmp_path / "b.tsv", [(f" {one}", f"{other} ") for one, other in drawn[300:]])
    dev = tsv(tmp_path / "dev.tsv", [("autre", "other")])
    prepared = made(tmp_path, train=[first, second], dev=dev)
    assert texts(prepared)[: prepared.train.sections[0].count] == list(dict.fromkeys(drawn[:300]))
    assert len(prepared.train) == len(set(order))
    read = [each for part, _, each in prepared.ledger.tallies() if part == "train"]
    assert [each.read for each in read] == [300, 200]
    assert [each.kept for each in read] == [section.count for section in prepared.train.sections]


def test_a_pair_is_a_duplicate_only_in_its_own_directions(tmp_path: Path) -> None:
    source = tsv(tmp_path / "train.tsv", PAIRS[:50])
    dev = tsv(tmp_path / "dev.tsv", [("autre", "other")])
    both, to_en, to_fr = (
        {**source, "directions": directions}
        for directions in (["fr-en", "en-fr"], ["fr-en"], ["en-fr"])
    )

    def kept(*sources: dict[str, Any], **data: Any) -> list[int]:
        prepared = made(tmp_path, train=list(sources), dev=dev, **data)
        return [section.count for section in prepared.train.sections]

    assert kept(to_en, to_fr) == [50, 50]
    assert kept(to_en, to_fr, to_en) == [50, 50, 0]
    assert kept(to_en, to_fr, both) == [50, 50, 0]
    assert kept(both, to_fr) == [50, 0]
    assert kept(to_en, both, directions=["fr-en"]) == [50, 0]


def test_without_dev_training_records_are_taken_evenly(tmp_path: Path) -> None:
    prepared = made(tmp_path, train=tsv(tmp_path / "train.tsv", PAIRS))
    held = list(zip(prepared.dev.texts(0), prepared.dev.texts(1), strict=True))
    assert held == PAIRS[19::20]
    assert not set(held) & set(texts(prepared))
    assert len(held) + len(prepared.train) == len(PAIRS)
    few = made(tmp_path, train=tsv(tmp_path / "train.tsv", PAIRS), dev_size=4)
    assert len(few.dev) == 4
    with pytest.raises(DataError, match=r"19 records are too few to take one in 20 as dev data"):
        made(tmp_path, train=tsv(tmp_path / "few.tsv", PAIRS[:19]))


def test_unusable_dev_records_count_as_dropped_from_train(tmp_path: Path) -> None:
    long = ("x" * 200, "y" * 200)
    prepared = made(tmp_path, train=tsv(tmp_path / "a.tsv", [*PAIRS[:19], long, *PAIRS[20:]]))
    assert len(prepared.dev) == 9
    assert counts(prepared.ledger, "dev") == {}
    assert counts(prepared.ledger, "train") == {"over the limit": 1}
    with pytest.raises(DataError, match="none of the records taken as dev data can be used"):
        made(tmp_path, train=tsv(tmp_path / "b.tsv", [*PAIRS[:19], long]))


def test_running_text_keeps_duplicates_and_every_character(tmp_path: Path) -> None:
    lines = [f"line {number % 50} of a poem with a refrain\n" for number in range(4000)]
    (tmp_path / "poem.txt").write_text("".join(lines))
    (tmp_path / "dev.txt").write_text("something else\n")
    train = {"kind": "text", "path": str(tmp_path / "poem.txt")}
    dev = {"kind": "text", "path": str(tmp_path / "dev.txt")}
    prepared = made(tmp_path, train=train, dev=dev)
    store, tokenizer = prepared.train, prepared.tokenizer
    stream = store.stream(0, store.tokens[0])
    assert tokenizer.decode(stream[:-1].tolist()) == "".join(lines)
    assert stream[-1] == tokenizer.end
    assert tally(prepared.ledger, "train").kept == len(lines)
    held = made(tmp_path, train=train)
    assert 0 < held.dev.tokens[0] < held.train.tokens[0] / 15
    total = tally(held.ledger, "train").read + tally(held.ledger, "dev").read
    assert total == len(lines)
    with pytest.raises(
        DataError, match=r"none of the 4,000 lines for train is left; .*in dev or test"
    ):
        made(tmp_path, train=train, dev=train)


def test_labels_are_those_of_the_training_data(tmp_path: Path) -> None:
    rows = [(f"text {number}", ("good", "bad")[number % 2]) for number in range(40)]
    train = {**tsv(tmp_path / "train.tsv", rows), "kind": "labeled"}
    dev = {**tsv(tmp_path / "dev.tsv", [("mine", "bad"), ("yours", "ugly")]), "kind": "labeled"}
    del train["languages"], dev["languages"]
    prepared = made(tmp_path, train=train, dev=dev, filters={"max_dropped": 0.5})
    assert prepared.labels == ("bad", "good")
    assert [row.tolist() for row in prepared.train.labels(np.arange(4))] == [[1], [0], [1], [0]]
    assert [row.tolist() for row in prepared.dev.labels(np.arange(1))] == [[0]]
    assert counts(prepared.ledger, "dev") == {"unknown label": 1}
    (example,) = tally(prepared.ledger, "dev").dropped["unknown label"].first
    assert example.line == 2
    assert example.detail == "no training text has the label 'ugly'"


def test_tokens_are_counted_by_language(tmp_path: Path) -> None:
    spec = validate(TokenizerSpec, {"kind": "bpe", "vocabulary": 400}, "recipe")
    prepared = made(tmp_path, spec, train=tsv(tmp_path / "train.tsv", PAIRS))
    for side, language in enumerate(("fr", "en")):
        ids = [prepared.train.row(row)[side] for row in range(len(prepared.train))]
        expected = np.bincount(np.concatenate(ids), minlength=len(prepared.tokenizer))
        found = prepared.language_id.counts[language]
        assert found == {piece: n for piece, n in enumerate(expected.tolist()) if n}
    assert prepared.unknown_rate == 0
    assert made(tmp_path, spec, train=tsv(tmp_path / "train.tsv", PAIRS)).language_id.counts == (
        prepared.language_id.counts
    )


def test_tokenizer_of_much_text_is_trained_on_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.store.scan.SAMPLE", 2000)
    seen: list[str] = []

    class Watching(type(BYTE)):  # type: ignore[misc]
        needs_text = True

        def train(self, lines: Any, languages: Any = ()) -> Any:
            seen.extend(lines)
            return super().train((), languages)

    made(tmp_path, Watching(), train=tsv(tmp_path / "train.tsv", PAIRS))
    assert 500 < sum(map(len, seen)) < 4000
    sides = [{pair[side] for pair in PAIRS} for side in (0, 1)]
    assert set(seen) <= sides[0] | sides[1]


def test_store_is_reused_and_rebuilt_if_damaged(tmp_path: Path) -> None:
    data = validate(
        DataSpec,
        {"train": tsv(tmp_path / "train.tsv", PAIRS), "prepared": str(tmp_path / "prepared")},
        "recipe",
    )
    first, again = prepare(data, BYTE, 100), prepare(data, BYTE, 100)
    assert again.reused
    assert again.ledger.to_json() == first.ledger.to_json()
    folder, expected = first.folder, texts(first)
    assert texts(again) == expected
    del first, again  # nobody may look at a file that is cut off under their hands
    for file in folder.iterdir():
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        said: list[str] = []
        mended = prepare(data, BYTE, 100, said.append)
        assert not mended.reused
        assert "prepared again" in said[0]
        assert texts(mended) == expected
        del mended


def test_too_many_dropped_lines_is_an_error_unless_allowed(tmp_path: Path) -> None:
    train = tsv(tmp_path / "train.tsv", [*PAIRS, *[("", "x")] * 50])
    for _ in range(2):
        with pytest.raises(DataError, match=r"of the 240 lines for train are dropped"):
            made(tmp_path, train=train)
    assert made(tmp_path, train=train, filters={"max_dropped": 0.3}).reused


def test_empty_source_is_refused(tmp_path: Path) -> None:
    empty = tsv(tmp_path / "empty.tsv", [])
    train = [tsv(tmp_path / "train.tsv", PAIRS), empty]
    with pytest.raises(DataError, match=r"empty\.tsv: none of the 0 lines for train"):
        made(tmp_path, train=train)


def test_failed_build_leaves_no_folder(tmp_path: Path) -> None:
    train = {**tsv(tmp_path / "train.tsv", PAIRS), "kind": "files"}
    del train["path"]
    (tmp_path / "short.en").write_text("one\n")
    train |= {"source": str(tmp_path / "train.tsv"), "target": str(tmp_path / "short.en")}
    spec = validate(TokenizerSpec, {"kind": "bpe", "vocabulary": 400}, "recipe")
    with pytest.raises(DataError, match="has 200 lines and"):
        made(tmp_path, spec, train=train)
    assert list((tmp_path / "prepared").iterdir()) == []


def test_stale_partial_folders_are_removed_after_a_day(tmp_path: Path) -> None:
    old, new = (tmp_path / "prepared" / f".{name}.partial" for name in ("old", "new"))
    for folder, when in ((old, 1e9), (new, time.time())):
        folder.mkdir(parents=True)
        (folder / "train.arrow").touch()
        for path in (folder / "train.arrow", folder):
            os.utime(path, (when, when))
    made(tmp_path, train=tsv(tmp_path / "train.tsv", PAIRS))
    assert not old.exists()
    assert new.exists()


def test_unwritable_prepared_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "prepared").write_text("a file")
    with pytest.raises(OutputError, match=r"prepared: cannot be written .* set data\.prepared"):
        made(tmp_path, train=tsv(tmp_path / "train.tsv", PAIRS))


def test_concurrent_builds_give_one_folder(tmp_path: Path) -> None:
    train = tsv(tmp_path / "train.tsv", PAIRS)
    with ThreadPoolExecutor(4) as pool:
        prepared = list(pool.map(lambda _: made(tmp_path, train=train), range(4)))
    assert {each.folder for each in prepared} == set((tmp_path / "prepared").iterdir())
    assert all(texts(each) == texts(prepared[0]) for each in prepared)


def test_weights_come_from_the_present_recipe(tmp_path: Path) -> None:
    train = tsv(tmp_path / "train.tsv", PAIRS)
    assert made(tmp_path, train=train).train.sections[0].weight == 1
    prepared = made(tmp_path, train={**train, "weight": 2.5})
    assert prepared.reused
    assert prepared.train.sections[0].weight == 2.5
    assert prepared.dev.sections[0].weight == 1


def test_progress_and_dev_size_are_reported(tmp_path: Path) -> None:
    told: dict[str, int] = {}

    def progress(doing: str, more: int) -> None:
        told[doing] = told.get(doing, 0) + more

    data = validate(
        DataSpec,
        {"train": tsv(tmp_path / "train.tsv", PAIRS), "prepared": str(tmp_path / "prepared")},
        "recipe",
    )
    said: list[str] = []
    prepare(data, BYTE, 100, said.append, progress)
    assert said == ["There is no data.dev: 10 records of data.train are dev data."]
    assert told == {"Reading": 200, "Tokenizing": 200}


def test_fingerprint_file_is_json(tmp_path: Path) -> None:
    prepared = made(tmp_path, train=tsv(tmp_path / "train.tsv", PAIRS))
    content = json.loads((prepared.folder / "fingerprint.json").read_text())
    assert content["splits"]["train"]["rows"] == [190]
    assert content["splits"]["train"]["bytes"] == prepared.train.path.stat().st_size
