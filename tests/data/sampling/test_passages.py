"""Documents as passages of bounded length."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from regard.config import validate
from regard.data.batches.corrupted import masked_batches, span_batches
from regard.data.batches.masking import Masking
from regard.data.batches.spans import SpanCorruptor, sentinel
from regard.data.config import DataSpec
from regard.data.sampling.passages import Passages
from regard.data.sampling.sampler import DataCursor
from regard.data.store.prepare import Prepared, prepare
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import DataError

MARKS = ("mask", *(sentinel(n) for n in range(30)))


def made(tmp_path: Path, documents: str, lines: list[str]) -> Prepared:
    (tmp_path / "train.txt").write_text("".join(lines))
    source = {"kind": "text", "path": str(tmp_path / "train.txt"), "documents": documents}
    data = {"train": source, "dev": source, "prepared": str(tmp_path / "prepared")}
    data["filters"] = {"eval_overlap": "keep"}  # type: ignore[assignment]
    tokenizer = TokenizerSpec.model_validate({"kind": "character"})
    return prepare(validate(DataSpec, data, "recipe"), tokenizer, 64, special_tokens=MARKS)


LINES = [f"{'abcdefgh' * (n % 9)} line {n}\n" for n in range(60)] + ["\n", "z\n"]


@pytest.mark.parametrize("documents", ["line", "file", "blank"])
@pytest.mark.parametrize("room", [1, 7, 30, 1000])
def test_passages_contain_all_text_once(tmp_path: Path, documents: str, room: int) -> None:
    prepared = made(tmp_path, documents, LINES)
    end = prepared.tokenizer.end
    passages = Passages(prepared.train, end, room)
    whole = prepared.train.stream(0, prepared.train.tokens[0])
    ids = passages.ids(np.arange(len(passages)))
    assert np.concatenate(ids).tolist() == whole[whole != end].tolist()
    assert max(map(len, ids)) <= room
    assert min(map(len, ids)) > 0
    assert passages.longest == max(map(len, ids))
    assert [len(each) for each in ids] == passages.lengths(np.arange(len(passages)))[:, 0].tolist()
    if documents == "line" and room == 1000:
        texts = [prepared.tokenizer.decode(each.tolist()) for each in ids]
        assert texts == [line.removesuffix("\n") for line in LINES if line.strip()]
    (section,) = passages.sections
    assert (section.first, section.count) == (0, len(passages))
    assert section.tokens == passages.tokens == (len(whole[whole != end]),)


def test_corrupted_batches_resume_from_cursor_and_differ_by_epoch(tmp_path: Path) -> None:
    prepared = made(tmp_path, "line", LINES)
    tokenizer = prepared.tokenizer
    passages = Passages(prepared.train, tokenizer.end, 30)
    for batches in (
        masked_batches(passages, tokenizer, Masking(tokenizer), 256, 1),
        span_batches(passages, tokenizer, SpanCorruptor(tokenizer, sentinels=30), 34, 256, 1),
    ):
        some = list(islice(batches.iter_from(DataCursor()), 40))
        epochs = [after.epoch for _, after in some]
        assert epochs[-1] >= 2
        for number in (3, 11, 25):
            again = islice(batches.iter_from(some[number][1]), 5)
            for (one, _), (other, _) in zip(some[number + 1 :], again, strict=False):
                assert str(one) == str(other)
        first = epochs.index(1) + 1
        seen = {tuple(row.tolist()) for batch, _ in some[:first] for row in _ids(batch)}
        later = {tuple(row.tolist()) for batch, _ in some[first : 2 * first] for row in _ids(batch)}
        assert len(seen & later) < len(seen) / 4
        assert str(next(batches.epoch())) == str(next(batches.epoch()))
        assert max(_ids(batch).size(1) for batch, _ in some) <= 34


def _ids(batch: object) -> object:
    return getattr(batch, "ids", getattr(batch, "source", None))


def test_empty_text_is_refused(tmp_path: Path) -> None:
    prepared = made(tmp_path, "line", LINES)
    store = prepared.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "lengths", lambda _, rows: np.zeros((len(rows), 1), np.int64))
        with pytest.raises(DataError, match=r"train.arrow: there is no text in it"):
            Passages(store, prepared.tokenizer.end, 10)


def test_batch_without_maskable_token_is_refused(tmp_path: Path) -> None:
    prepared = made(tmp_path, "line", LINES)
    tokenizer = prepared.tokenizer
    passages = Passages(prepared.train, tokenizer.end, 30)
    masking = Masking(tokenizer)
    masking._is_special[:] = True
    with pytest.raises(DataError, match="no token that can be masked"):
        next(masked_batches(passages, tokenizer, masking, 256, 1).iter_from(DataCursor()))
