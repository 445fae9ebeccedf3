"""The token store: rows, labels and streams are restored from any position."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.ledger import Ledger
from regard.data.records import Location, Record
from regard.data.sources.base import RecordType
from regard.data.store.store import Section, SplitStats, Store
from regard.data.store.writer import RowEncoder, StoreWriter
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.errors import DataError

BYTE = TokenizerSpec.model_validate("byte").train((), ["fr", "en"])


def write_store(
    path: Path,
    sources: Sequence[Sequence[Record]],
    record_type: RecordType,
    tokenizer: Tokenizer = BYTE,
) -> Store:
    sides = max(len(record.texts) for records in sources for record in records)
    encoder = RowEncoder(
        record_type, tokenizer, tokenizer.encode_all, 1000, {"good": 0, "bad": 1}, sides
    )
    names = [str(number) for number in range(len(sources))]
    with StoreWriter(path, encoder, Ledger(), names, path.stem) as writer:
        for number, records in enumerate(sources):
            for record in records:
                writer.add(number, record)
    stats = SplitStats.measure(path, writer.files, len(sources))
    firsts = np.cumsum([0, *stats.rows]).tolist()
    sections = [
        Section(first, rows, tokens)
        for first, rows, tokens in zip(firsts, stats.rows, stats.tokens, strict=False)
    ]
    return Store(path, stats, sections)


def pair(first: str, second: str, line: int = 1) -> Record:
    return Record(Location("pairs.tsv", line), (first, second))


Texts = st.text(alphabet="abcé ", min_size=1, max_size=30)


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(Texts, Texts), min_size=1, max_size=40), split=st.integers(0, 40))
def test_every_row_is_restored(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], split: int
) -> None:
    records = [pair(*texts, line) for line, texts in enumerate(pairs, start=1)]
    path = tmp_path_factory.mktemp("store") / "dev.arrow"
    store = write_store(path, [records[:split], records[split:]], "pair")
    assert len(store) == len(pairs)
    rows = np.random.default_rng(0).permutation(len(pairs))
    expected = np.array([[len(text.encode()) for text in pairs[row]] for row in rows])
    assert np.array_equal(store.lengths(rows), expected)
    assert store.tokens == tuple(expected.sum(axis=0))
    assert store.stats.longest == expected.sum(axis=1).max()
    for row, texts in enumerate(pairs):
        assert [ids.tolist() for ids in store.row(row)] == BYTE.encode_all(texts)
        assert store.location(row) == Location("pairs.tsv", row + 1)
    assert list(zip(store.texts(0), store.texts(1), strict=True)) == pairs
    assert [section.count for section in store.sections] == [
        len(records[:split]),
        len(records[split:]),
    ]


def test_rows_are_found_in_many_record_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.data.store.writer.ROWS", 7)
    monkeypatch.setattr("regard.data.store.store.TOUCHED", 5)
    monkeypatch.setattr("regard.data.store.store.SMALL", 0)
    records = [pair("a" * (n % 9 + 1), "b" * (n % 5 + 1)) for n in range(100)]
    store = write_store(tmp_path / "train.arrow", [records[:45], records[45:]], "pair")
    rows = np.arange(100)[::-1].copy()
    views = store.ids(rows, rows % 2)
    store.release()  # the views stay good
    for row, ids in zip(rows, views, strict=True):
        assert BYTE.decode(ids.tolist()) == records[row].texts[row % 2]


def test_running_text_is_one_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.store.writer.CHARACTERS", 20)
    texts = ["Once upon a time\n", "there was\n", "a fox.", "Another story.", ""]
    ends = [False, False, True, True, True]
    records = [
        Record(Location("tale.txt", line), (text,), end)
        for line, (text, end) in enumerate(zip(texts, ends, strict=True), start=1)
    ]
    store = write_store(tmp_path / "train.arrow", [records], "text")
    whole = [
        *BYTE.encode("Once upon a time\nthere was\na fox."),
        BYTE.end,
        *BYTE.encode("Another story."),
        BYTE.end,
        BYTE.end,
    ]
    assert store.tokens == (len(whole),)
    for start in range(len(whole)):
        for length in range(len(whole) - start + 1):
            if length:
                assert store.stream(start, length).tolist() == whole[start : start + length]


@pytest.mark.parametrize("texts", [("text",), ("text", "another")])
def test_labels_are_stored_as_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: tuple[str, ...]
) -> None:
    monkeypatch.setattr("regard.data.store.writer.ROWS", 2)
    labels = [("bad",), ("good", "bad"), (), (), ("good",)]
    records = [Record(Location("f", n), texts, labels=each) for n, each in enumerate(labels)]
    store = write_store(tmp_path / "train.arrow", [records], "labeled")
    assert store.num_texts == len(texts)
    found = store.labels(np.array([4, 3, 2, 1, 0]))
    assert [row.tolist() for row in found] == [[0], [], [], [0, 1], [1]]
    assert [ids.tolist() for ids in store.row(3)] == BYTE.encode_all(texts)


def test_large_vocabulary_uses_wider_ids(tmp_path: Path) -> None:
    class Large(Tokenizer):
        def __len__(self) -> int:
            return 70_000

        def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
            return [[69_999, len(text)] for text in texts]

    large = Large.from_json(BYTE.to_json())
    store = write_store(tmp_path / "train.arrow", [[pair("ab", "c")]], "pair", large)
    assert [ids.tolist() for ids in store.row(0)] == [[69_999, 2], [69_999, 1]]


def test_truncated_or_damaged_store_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "train.arrow"
    store = write_store(path, [[pair("ab", "c")]], "pair")
    stats, sections, data = store.stats, store.sections, path.read_bytes()
    del store
    path.write_bytes(data[:-10])
    with pytest.raises(DataError, match=r"train\.arrow: missing, or not of the length"):
        Store(path, stats, sections)
    path.write_bytes(bytes(len(data)))
    with pytest.raises(DataError, match=r"train\.arrow: damaged"):
        Store(path, stats, sections)
