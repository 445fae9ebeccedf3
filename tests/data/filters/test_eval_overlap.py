"""Training records that are also in dev or test: each kind, dropped or reported."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.ledger import Ledger
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec

BYTE = TokenizerSpec.model_validate("byte")
FRENCH = "je n'ai jamais vu un chat aussi grand que le numéro {}"
ENGLISH = "I have never seen a cat as large as the number {}"
PAIRS = [(FRENCH.format(n), ENGLISH.format(n)) for n in range(100)]
IN_EVAL, REVERSED, RELABELED = (
    "in dev or test",
    "reversed in dev or test",
    "in dev or test with another label",
)
SOURCE, TARGET = "source in dev or test", "target in dev or test"
FIRST, SECOND = "first text in dev or test", "second text in dev or test"


def written(path: Path, rows: list[tuple[str, ...]], **spec: Any) -> dict[str, Any]:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return {"path": str(path), **spec}


def pairs(path: Path, rows: list[tuple[str, ...]], languages: str = "fr en") -> dict[str, Any]:
    return written(path, rows, kind="tsv", languages=languages.split())


def labeled(path: Path, rows: list[tuple[str, ...]]) -> dict[str, Any]:
    return written(path, rows, kind="labeled", columns=list(range(len(rows[0]))))


def made(folder: Path, **data: Any) -> Prepared:
    content = {"prepared": str(folder / "prepared"), **data}
    return prepare(validate(DataSpec, content, "recipe"), BYTE, 500)


def counts(ledger: Ledger, column: str = "dropped") -> dict[str, int]:
    return {
        reason: cause.count
        for split, _, tally in ledger.tallies()
        if split == "train"
        for reason, cause in getattr(tally, column).items()
    }


def lines(prepared: Prepared) -> list[int]:
    return [prepared.train.location(row).line for row in range(len(prepared.train))]


def swapped(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [(second, first, *rest) for first, second, *rest in rows]


def test_pairs_in_the_other_order_of_languages_are_dropped(tmp_path: Path) -> None:
    dev = pairs(tmp_path / "dev.tsv", swapped(PAIRS[:20]), "en fr")
    for directions in (["fr-en"], ["fr-en", "en-fr"]):
        prepared = made(
            tmp_path, train=pairs(tmp_path / "train.tsv", PAIRS), dev=dev, directions=directions
        )
        assert counts(prepared.ledger) == {REVERSED: 20}
        assert lines(prepared) == list(range(21, 101))
    test = pairs(tmp_path / "test.tsv", PAIRS[90:])
    prepared = made(tmp_path, train=pairs(tmp_path / "train.tsv", PAIRS), dev=dev, test=test)
    assert counts(prepared.ledger) == {REVERSED: 20, IN_EVAL: 10}
    assert prepared.ledger.drop_rate == 0


def test_mirrored_training_sources_are_duplicates(tmp_path: Path) -> None:
    first = pairs(tmp_path / "a.tsv", PAIRS[:50])
    second = pairs(tmp_path / "b.tsv", swapped(PAIRS[40:60]), "en fr")
    prepared = made(tmp_path, train=[first, second], dev=pairs(tmp_path / "dev.tsv", PAIRS[60:62]))
    assert [section.count for section in prepared.train.sections] == [50, 10]
    assert counts(prepared.ledger) == {"duplicate": 10}


def test_equal_texts_in_other_languages_are_not_the_same(tmp_path: Path) -> None:
    rows = [("taxi", "taxi"), *PAIRS[:20]]
    other = pairs(tmp_path / "de.tsv", [("taxi", "taxi"), ("ja", "yes")], "de en")
    dev = pairs(tmp_path / "dev.tsv", [("taxi", "taxi")], "de en")
    prepared = made(tmp_path, train=[pairs(tmp_path / "fr.tsv", rows), other], dev=dev)
    assert [section.count for section in prepared.train.sections] == [21, 1]
    prepared = made(tmp_path, train=[pairs(tmp_path / "fr.tsv", rows), other], dev_size=1)
    assert len(prepared.train) + len(prepared.dev) == 23


def test_one_text_of_a_pair_is_dropped_if_long_and_reported_if_short(tmp_path: Path) -> None:
    dev = [PAIRS[0], PAIRS[1], ("oui", "yes"), ("bonjour à toi", "hello")]
    leaks = [
        (PAIRS[0][0], "another translation of the same long sentence"),
        ("une autre phrase, qui est la source de la même traduction", PAIRS[1][1]),
        ("  oui ", "yeah"),
        ("mais oui", "yes"),
        ("oui", "hello"),  # of two pairs
    ]
    train = pairs(tmp_path / "train.tsv", [*leaks, *PAIRS[2:]])
    for eval_set in (
        pairs(tmp_path / "dev.tsv", dev),
        pairs(tmp_path / "dev-en.tsv", swapped(dev), "en fr"),
    ):
        prepared = made(tmp_path, train=train, dev=eval_set)
        assert counts(prepared.ledger) == {SOURCE: 1, TARGET: 1}
        assert counts(prepared.ledger, "shared") == {SOURCE: 2, TARGET: 1}
        assert lines(prepared) == list(range(3, 104))
    (tally,) = [tally for split, _, tally in prepared.ledger.tallies() if split == "train"]
    assert [line.line for line in tally.shared[SOURCE].first] == [3, 5]
    assert tally.dropped[TARGET].first[0].line == 2
    every = made(tmp_path, train=train, dev=eval_set, filters={"max_shared_text": 0})
    assert counts(every.ledger) == {SOURCE: 3, TARGET: 2}
    assert counts(every.ledger, "shared") == {}
    for filters in ({"max_shared_text": None}, {"eval_overlap": "keep"}):
        none = made(tmp_path, train=train, dev=eval_set, filters=filters)
        assert counts(none.ledger) == {}
        assert counts(none.ledger, "shared") == {SOURCE: 3, TARGET: 2}
        assert len(none.train) == 103


def test_length_of_a_shared_text_counts_without_space_around_it(tmp_path: Path) -> None:
    text = "x" * 40
    train = pairs(tmp_path / "train.tsv", [(f"{text} ", "forty"), *PAIRS])
    for length, expected in ((39, {SOURCE: 1}), (40, {})):
        prepared = made(
            tmp_path,
            train=train,
            dev=pairs(tmp_path / "dev.tsv", [(f" {text}", "another")]),
            filters={"max_shared_text": length, "max_ratio": 100},
        )
        assert counts(prepared.ledger) == expected


def test_alternative_references_are_eval_texts_too(tmp_path: Path) -> None:
    versions = {"a": PAIRS[0][0], "b": ["another one", PAIRS[0][1]]}
    (tmp_path / "dev.jsonl").write_text(json.dumps(versions))
    dev = {
        "kind": "jsonl",
        "path": str(tmp_path / "dev.jsonl"),
        "keys": ["a", "b"],
        "lists": ["none", "versions"],
        "languages": ["fr", "en"],
    }
    prepared = made(tmp_path, train=pairs(tmp_path / "train.tsv", PAIRS), dev=dev)
    assert counts(prepared.ledger) == {IN_EVAL: 1}
    other = pairs(tmp_path / "train.tsv", [("un tout autre texte", PAIRS[0][1]), *PAIRS[1:]])
    assert counts(made(tmp_path, train=other, dev=dev).ledger) == {TARGET: 1}


def test_text_with_another_label_is_dropped(tmp_path: Path) -> None:
    rows = [(f"review number {n}", "good" if n % 2 else "bad") for n in range(50)]
    dev = [("review number 0", "bad"), (" review number 1 ", "bad"), ("review number 2", "good")]
    train = labeled(tmp_path / "train.tsv", rows)
    prepared = made(tmp_path, train=train, dev=labeled(tmp_path / "dev.tsv", dev))
    assert counts(prepared.ledger) == {IN_EVAL: 1, RELABELED: 2}
    assert lines(prepared) == list(range(4, 51))
    filters = {"eval_overlap": "keep"}
    kept = made(tmp_path, train=train, dev=labeled(tmp_path / "dev.tsv", dev), filters=filters)
    assert counts(kept.ledger, "shared") == {IN_EVAL: 1, RELABELED: 2}
    assert len(kept.train) == 50


def test_conflicting_labels_within_train_are_kept(tmp_path: Path) -> None:
    rows = [("the same text", "good"), ("the same text", "bad"), ("the same text", "good")]
    rows += [(f"review number {n}", "good") for n in range(50)]
    dev = labeled(tmp_path / "dev.tsv", [("something else", "good")])
    prepared = made(tmp_path, train=labeled(tmp_path / "train.tsv", rows), dev=dev)
    assert counts(prepared.ledger) == {"duplicate": 1}
    assert len(prepared.train) == 52


def test_labeled_pairs(tmp_path: Path) -> None:
    """A premise has several hypotheses by design: one shared text is reported and not dropped."""
    rows = [(FRENCH.format(n), ENGLISH.format(n), "yes" if n % 2 else "no") for n in range(50)]
    dev = [
        (FRENCH.format(0), ENGLISH.format(0), "no"),
        (FRENCH.format(1), ENGLISH.format(1), "no"),
        (ENGLISH.format(2), FRENCH.format(2), "no"),
        (FRENCH.format(3), "something else", "yes"),
        ("something else", ENGLISH.format(4), "yes"),
    ]
    train = labeled(tmp_path / "train.tsv", rows)
    prepared = made(tmp_path, train=train, dev=labeled(tmp_path / "dev.tsv", dev))
    assert counts(prepared.ledger) == {IN_EVAL: 1, RELABELED: 1, REVERSED: 1}
    assert counts(prepared.ledger, "shared") == {FIRST: 1, SECOND: 1}


def test_running_text_is_compared_by_record(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("".join(f"line number {n}\n" for n in range(50)))
    (tmp_path / "dev.txt").write_text("line number 7\n  line number 9\n")
    train, dev = (
        {"kind": "text", "path": str(tmp_path / f"{name}.txt"), "documents": "line"}
        for name in ("train", "dev")
    )
    prepared = made(tmp_path, train=train, dev=dev)
    assert counts(prepared.ledger) == {IN_EVAL: 2}
    assert len(prepared.train) == 48


def test_dev_data_taken_from_train_leave_no_other_translation_in_it(tmp_path: Path) -> None:
    rows = [(FRENCH.format(n), f"{ENGLISH.format(n)}, {m}") for m in range(2) for n in range(40)]
    prepared = made(tmp_path, train=pairs(tmp_path / "train.tsv", rows), dev_size=3)
    held = set(prepared.dev.texts(0))
    assert len(held) == 3
    assert counts(prepared.ledger) == {SOURCE: 3}
    assert len(prepared.train) == 80 - 2 * 3


def test_shared_texts_are_in_table_and_file_of_the_ledger(tmp_path: Path) -> None:
    train = pairs(tmp_path / "train.tsv", [("oui", "yeah"), *PAIRS])
    dev = pairs(tmp_path / "dev.tsv", [("oui", "yes")])
    ledger = made(tmp_path, train=train, dev=dev).ledger
    again = Ledger.from_json(ledger.to_json())
    assert counts(again, "shared") == {SOURCE: 1}
    console = Console(width=100)
    with console.capture() as printed:
        console.print(again.table())
    row = next(line for line in printed.get().splitlines() if "source in dev or test" in line)
    assert row.split() == ["source", "in", "dev", "or", "test,", "first", "line", "1", "1"]
    (tally,) = [tally for split, _, tally in again.tallies() if split == "train"]
    assert (tally.read, tally.kept) == (101, 101)
