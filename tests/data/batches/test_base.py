"""Batches: token ids, padding, labels, windows and shards."""

from collections import Counter
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import validate
from regard.data.batches.base import Batch, pad
from regard.data.batches.labeled import LabeledBatch, labeled_batches
from regard.data.batches.pairs import Example, PairBatch, collate, pair_batches
from regard.data.batches.text import DocumentMaskedBatch, TextBatch, eval_windows, text_batches
from regard.data.config import DataSpec, Direction
from regard.data.sampling.sampler import DataCursor
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec

BYTE = TokenizerSpec.model_validate("byte")
FR_EN = [(f"chat {n}", f"cat number {n}") for n in range(30)]
DE_EN = [(f"Hund {n}", f"dog {n}") for n in range(20)]
ALL = [Direction("fr", "en"), Direction("en", "fr"), Direction("de", "en"), Direction("en", "de")]


def made(folder: Path, sources: list[dict[str, Any]], lines: list[str]) -> Prepared:
    for number, (source, text) in enumerate(zip(sources, lines, strict=True)):
        (folder / f"{number}.txt").write_text(text)
        source["path"] = str(folder / f"{number}.txt")
    *train, dev = sources
    given = {"train": train, "dev": dev, "prepared": str(folder / "prepared")}
    return prepare(validate(DataSpec, given, "recipe"), BYTE, 100)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    def table(rows: list[tuple[str, str]]) -> str:
        return "".join(f"{first}\t{second}\n" for first, second in rows)

    french, german = ({"kind": "tsv", "languages": [name, "en"]} for name in ("fr", "de"))
    lines = [table(FR_EN), table(DE_EN), "rouge\tred\n"]
    return made(tmp_path_factory.mktemp("pairs"), [french, german, {**french}], lines)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    sources = [{"kind": "text"} for _ in range(3)]
    lines = ["abcdefghijklmnopqrstuvwxyz" * 20, "tiny", "0123456789" * 7]
    return made(tmp_path_factory.mktemp("text"), sources, lines)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    sources = [{"kind": "labeled"} for _ in range(2)]
    lines = ["".join(f"{'ab' * n}\tlabel {n % 3}\n" for n in range(1, 40)), "dev\tlabel 0\n"]
    return made(tmp_path_factory.mktemp("labeled"), sources, lines)


def sentences(batch: PairBatch, prepared: Prepared) -> Counter[tuple[str, str, str]]:
    """Return (tag or "", source, target) of each row, and check its special tokens."""
    tokenizer = prepared.tokenizer
    tags = {tokenizer.special_id(name): name for name in prepared.languages}
    said: Counter[tuple[str, str, str]] = Counter()
    rows = zip(batch.source, batch.source_mask, batch.target, batch.target_mask, strict=True)
    for source, source_mask, target, target_mask in rows:
        ids, words = source[source_mask].tolist(), target[target_mask].tolist()
        tag = tags.get(ids[0], "")
        assert (ids[-1], words[0], words[-1]) == (tokenizer.end, tokenizer.start, tokenizer.end)
        assert (source[~source_mask] == tokenizer.pad).all()
        assert (target[~target_mask] == tokenizer.pad).all()
        said[tag, tokenizer.decode(ids), tokenizer.decode(words)] += 1
    return said


def test_pairs_are_translated_both_ways_with_target_language_tag(pairs: Prepared) -> None:
    batches = pair_batches(pairs.train, pairs.tokenizer, ALL, budget=200, seed=1)
    said: Counter[tuple[str, str, str]] = Counter()
    for batch in batches.epoch():
        assert batch.source_mask.sum() + batch.target_mask.sum() <= 200
        said += sentences(batch, pairs)
    expected = Counter(
        way
        for language, rows in (("fr", FR_EN), ("de", DE_EN))
        for one, other in rows
        for way in (("en", one, other), (language, other, one))
    )
    assert said == expected


def test_single_target_language_needs_no_tag(pairs: Prepared) -> None:
    into_english = [way for way in ALL if way.target == "en"]
    batches = pair_batches(pairs.train, pairs.tokenizer, into_english, budget=200, seed=1)
    said = sum((sentences(batch, pairs) for batch in batches.epoch()), Counter())
    assert said == Counter(("", *pair) for pair in FR_EN + DE_EN)


def test_pairs_of_a_source_are_trained_in_its_directions(pairs: Prepared) -> None:
    first, second = pairs.train.sections
    store = copy(pairs.train)
    store.sections = [replace(first, source_sides=(1,)), second]
    batches = pair_batches(store, pairs.tokenizer, ALL, budget=200, seed=1)
    said = sum((sentences(batch, pairs) for batch in batches.epoch()), Counter())
    assert {tag for tag, one, _ in said if one in dict(FR_EN)} == set()
    assert said[("fr", *reversed(FR_EN[0]))] == 1
    assert said[("en", *DE_EN[0])] == 1


def test_batches_resume_from_cursor(pairs: Prepared) -> None:
    batches = pair_batches(pairs.train, pairs.tokenizer, ALL, budget=200, seed=1)
    drawn = list(islice(batches.iter_from(DataCursor()), 100))
    assert drawn[-1][1].epoch > 1
    for (batch, _), (again, _) in zip(drawn[41:], batches.iter_from(drawn[40][1]), strict=False):
        assert torch.equal(batch.source, again.source)
        assert torch.equal(batch.target, again.target)


def test_windows_contain_the_text(text: Prepared) -> None:
    batches = text_batches(text.train, context=10, budget=50, seed=1)
    ring = "abcdefghijklmnopqrstuvwxyz" * 20
    store, tokenizer = text.train, text.tokenizer
    whole = store.stream(0, store.sections[0].tokens[0]).tolist()
    twice = ",".join(map(str, whole + whole))
    tiny = [*tokenizer.encode("tiny"), tokenizer.end] * 4
    found_tiny = 0
    for batch in batches.epoch():
        assert batch.ids.shape[1] == 11
        assert batch.num_targets == 10 * len(batch.ids)
        for row in batch.ids.tolist():
            is_tiny = ",".join(map(str, row)) in ",".join(map(str, tiny))
            found_tiny += is_tiny
            assert is_tiny or ",".join(map(str, row)) in twice
    assert found_tiny == 1
    assert tokenizer.decode(whole) == ring


def test_eval_windows_predict_each_token_once(text: Prepared) -> None:
    store, said, tokens = text.dev, [], 0
    for batch in eval_windows(store, context=16, budget=40, pad_id=text.tokenizer.pad):
        assert len(batch.ids) <= 2
        for ids, token_mask in zip(batch.ids, batch.token_mask, strict=True):
            said.extend(ids[token_mask].tolist()[1:])
        tokens += batch.num_targets
    assert said == store.stream(1, store.tokens[0] - 1).tolist()
    assert tokens == len(said)


def test_labeled_batches_have_the_labels_of_their_texts(labelled: Prepared) -> None:
    tokenizer, seen = labelled.tokenizer, {}
    batches = labeled_batches(labelled.train, tokenizer, budget=200, seed=1)
    for batch in batches.epoch():
        assert batch.token_mask.sum() <= 200
        assert batch.num_targets == len(batch.labels)
        for ids, token_mask, label in zip(batch.ids, batch.token_mask, batch.labels, strict=True):
            assert (int(ids[0]), int(ids[token_mask][-1])) == (tokenizer.start, tokenizer.end)
            seen[tokenizer.decode(ids[token_mask].tolist())] = labelled.labels[label]
    assert seen == {"ab" * n: f"label {n % 3}" for n in range(1, 40)}


def test_text_pair_is_one_row_and_several_labels_are_one_hot(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    source = {"kind": "labeled", "columns": [0, 1, 2], "labels": {"separator": ",", "none": "-"}}
    cells = ("a,b", "c", "-", "c,a")
    lines = [f"{'x' * n}\t{'y' * (40 - n)}\t{cells[n % 4]}\n" for n in range(1, 40)]
    folder = tmp_path_factory.mktemp("several")
    found = made(folder, [source, {**source}], ["".join(lines), "dev\tdev\t-\n"])
    tokenizer, end, seen = found.tokenizer, found.tokenizer.end, 0
    assert found.labels == ("a", "b", "c")
    wanted = {0: [1, 1, 0], 1: [0, 0, 1], 2: [0, 0, 0], 3: [1, 0, 1]}
    for batch in labeled_batches(found.train, tokenizer, 300, seed=1, classes=3).epoch():
        assert batch.token_mask.all()  # all rows are 43 long: like lengths are told by the whole
        assert batch.num_targets == 3 * len(batch.ids)
        for ids, labels in zip(batch.ids.tolist(), batch.labels.tolist(), strict=True):
            n = ids.index(end) - 1
            expected = [*tokenizer.encode("x" * n), end, *tokenizer.encode("y" * (40 - n)), end]
            assert ids == [tokenizer.start, *expected]
            assert labels == wanted[n % 4]
            seen += 1
        spare = batch.shard(len(batch.ids), len(batch.ids) + 1)
        assert spare.num_targets == 0
    assert seen == len(found.train)


def test_collate_pads_on_the_right_and_sets_token_mask() -> None:
    batch = collate([Example([5, 6, 7], [2, 8, 3]), Example([5], [2, 3])], pad_id=0)
    assert batch.source.tolist() == [[5, 6, 7], [5, 0, 0]]
    assert batch.source_mask.tolist() == [[True] * 3, [True, False, False]]
    assert batch.target.tolist() == [[2, 8, 3], [2, 3, 0]]
    assert batch.num_targets == 3


ROWS = [[2, 7, 3], [2, 8, 8, 3], [2, 3]]
BATCHES = [
    collate([Example(row, row) for row in ROWS], pad_id=0),
    TextBatch(*pad(ROWS, 0)),
    DocumentMaskedBatch(*pad(ROWS, 0), torch.full((3,), 3)),
    LabeledBatch(*pad(ROWS, 0), torch.tensor([1, 0, 1])),
]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shards_add_up_and_none_is_empty(batch: Batch, size: int) -> None:
    whole = batch.num_targets
    shares = [batch.shard(rank, size) for rank in range(size)]
    assert sum(share.num_targets for share in shares) == whole
    assert all(share.num_targets == 0 for share in shares[3:])
    assert batch.num_targets == whole  # the batch itself is left as it was
    rows = [len(next(iter(vars(share).values()))) for share in shares]
    assert min(rows) > 0
    assert sum(rows[:3]) == 3


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: type(batch).__name__)
def test_to_moves_all_tensors(batch: Batch) -> None:
    moved = batch.to(torch.device("meta"))
    assert type(moved) is type(batch)
    assert {tensor.device.type for tensor in vars(moved).values()} == {"meta"}


def test_end_token_begins_the_next_document() -> None:
    ids, token_mask = pad([[7, 8, 3, 7, 3, 3, 9], [3, 7, 7, 3]], 0)
    batch = DocumentMaskedBatch(ids, token_mask, torch.full((2,), 3))
    assert batch.documents.tolist() == [[0, 0, 1, 1, 2, 3, 3], [1, 1, 1, 2, 2, 2, 2]]
    again = batch.shard(1, 2)
    assert again.documents.tolist() == [[1, 1, 1, 2, 2, 2, 2]]


def test_document_mask_does_not_change_windows(text: Prepared) -> None:
    end = text.tokenizer.end
    across = text_batches(text.train, context=10, budget=50, seed=1).epoch()
    apart = text_batches(text.train, context=10, budget=50, seed=1, end=end).epoch()
    for one, other in zip(across, apart, strict=True):
        assert isinstance(one, TextBatch)
        assert isinstance(other, DocumentMaskedBatch)
        assert torch.equal(one.ids, other.ids)
        assert set(other.end.tolist()) == {end}
    pad_id = text.tokenizer.pad
    scored = eval_windows(text.dev, context=16, budget=40, pad_id=pad_id, end=end)
    assert all(isinstance(batch, DocumentMaskedBatch) for batch in scored)
