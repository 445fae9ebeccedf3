"""Token masking and span corruption."""

from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batches.masking import Masking
from regard.data.batches.spans import SpanCorruptor, sentinel
from regard.data.bundled import corpus
from regard.data.tokenizers.base import TokenizerSpec
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.data.tokenizers.word_boundaries import WordBoundaries

Ints = npt.NDArray[np.int64]
SENTINELS = 60


@cache
def texts() -> list[str]:
    return [pair.english for pair in corpus(1, 400, 20, 20).train]


@cache
def tokenizer() -> Tokenizer:
    spec = TokenizerSpec.model_validate({"kind": "bpe", "vocabulary": 500})
    marks = ["mask", *(sentinel(n) for n in range(SENTINELS))]
    return spec.train(texts(), marks)


def rows(count: int, joined: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return padded rows of some sentences each, between start and end."""
    some = [" ".join(texts()[n : n + joined]) for n in range(count)]
    ids = [[tokenizer().start, *tokenizer().encode(text), tokenizer().end] for text in some]
    wide = max(map(len, ids))
    whole = np.array([[*row, *[tokenizer().pad] * (wide - len(row))] for row in ids])
    return whole, np.arange(wide) < np.array([len(row) for row in ids])[:, None]


@pytest.mark.parametrize("whole_words", [False, True])
def test_masking_rates_are_those_of_bert(whole_words: bool) -> None:
    ids, token_mask = rows(400, 3)
    masking = Masking(tokenizer(), whole_words=whole_words)
    hidden, chosen = masking(ids, token_mask, (1, 0), np.arange(len(ids)))
    free = (token_mask.sum(1) - 2).sum()
    count = chosen.sum()
    assert count / free == pytest.approx(0.15, abs=0.005)
    masked = (hidden == tokenizer().special_id("mask")) & chosen
    stayed = (hidden == ids) & chosen
    spread = 4 * np.sqrt(0.8 * 0.2 / count)
    assert masked.sum() / count == pytest.approx(0.8, abs=spread)
    chance = 0.1 / len(tokenizer())  # to be replaced by itself
    assert stayed.sum() / count == pytest.approx(0.1 + chance, abs=spread)
    others = hidden[chosen & ~masked & ~stayed]
    assert not set(others.tolist()) & tokenizer().special_ids
    assert len(set(others.tolist())) > 0.8 * min(len(others), 200)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 9), st.floats(0.05, 0.9), st.booleans())
def test_only_masked_positions_change(seed: int, epoch: int, share: float, words: bool) -> None:
    ids, token_mask = rows(6, 1)
    masking = Masking(tokenizer(), share, whole_words=words)
    hidden, chosen = masking(ids, token_mask, (seed, epoch), np.arange(6))
    assert (hidden[~chosen] == ids[~chosen]).all()
    assert not np.isin(ids[chosen], sorted(tokenizer().special_ids)).any()
    assert (chosen <= token_mask).all()
    assert chosen.any(1).all()  # no text is read for nothing
    if words:
        begins = WordBoundaries(tokenizer())(ids)
        number = begins.cumsum(1)
        for row in range(6):
            for word in np.unique(number[row][chosen[row]]):
                pieces = (number[row] == word) & ~np.isin(ids[row], sorted(tokenizer().special_ids))
                assert chosen[row][pieces].all()


def test_mask_depends_on_row_and_epoch_not_on_batch() -> None:
    ids, token_mask = rows(20, 2)
    masking, numbers = Masking(tokenizer(), whole_words=True), np.arange(100, 120)
    hidden, chosen = masking(ids, token_mask, (1, 0), numbers)
    some = np.array([7, 3, 12])
    again, picked = masking(ids[some], token_mask[some], (1, 0), numbers[some])
    assert (again == hidden[some]).all()
    assert (picked == chosen[some]).all()
    for key in ((1, 1), (2, 0)):
        assert (masking(ids, token_mask, key, numbers).masked_positions != chosen).any(
            1
        ).mean() > 0.7


def test_mask_rate_is_equal_at_all_positions_and_word_lengths() -> None:
    """Over many epochs, each token is masked in its fraction of them."""
    ids, token_mask = rows(40, 4)
    masking = Masking(tokenizer(), whole_words=True)
    often = sum(
        masking(ids, token_mask, (1, epoch), np.arange(40)).masked_positions.astype(float)
        for epoch in range(200)
    )
    free = token_mask & ~np.isin(ids, sorted(tokenizer().special_ids))
    shares = often[free] / 200
    assert shares.mean() == pytest.approx(0.15, abs=0.005)
    # A share of 200 draws is off by 0.025 on average, and by 0.11 in one of 100,000 pieces.
    assert shares.std() < 0.035
    assert shares.max() < 0.3


def test_special_tokens_are_never_masked() -> None:
    ids = np.array([[tokenizer().start, tokenizer().unknown, tokenizer().end]])
    hidden, chosen = Masking(tokenizer())(ids, ids >= 0, (1, 0), np.arange(1))
    assert (hidden == ids).all()
    assert not chosen.any()


def mended(source: list[int], target: list[int]) -> list[int]:
    """Restore the text from source and target."""
    marks = [tokenizer().special_id(sentinel(n)) for n in range(SENTINELS)]
    assert source[-1] == target[-1] == tokenizer().end
    assert target[0] == tokenizer().start
    spans: dict[int, list[int]] = {}
    for each in target[1:-1]:
        if each in marks:
            assert each == marks[len(spans)]  # one after the other
            now = spans.setdefault(each, [])
        else:
            now.append(each)
    assert spans[marks[len(spans) - 1]] == []  # the last closes the last span
    assert [each for each in source if each in marks] == marks[: len(spans) - 1]
    return [part for each in source[:-1] for part in spans.get(each, [each])]


@settings(deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(0, 380),
    st.integers(1, 8),
    st.floats(0.05, 0.5),
    st.floats(1, 5),
    st.booleans(),
)
def test_corrupted_text_can_be_restored(
    seed: int, first: int, joined: int, share: float, mean: float, words: bool
) -> None:
    ids = np.array(tokenizer().encode(" ".join(texts()[first : first + joined])))
    spans = SpanCorruptor(tokenizer(), share, mean, SENTINELS, words)
    longest = len(ids) + 4
    source, target = (part.tolist() for part in spans(ids, longest, (seed, 0), first))
    assert mended(source, target) == ids.tolist()
    assert max(len(source), len(target)) <= longest
    if words:
        begins = np.append(WordBoundaries(tokenizer())(ids), True)
        assert all(begins[at] for at in cuts(source, target))
    again = spans(ids, longest, (seed, 0), first)
    assert again.source.tolist() == source


def cuts(source: list[int], target: list[int]) -> list[int]:
    """Return where spans begin and end in the text."""
    found, at = [], 0
    for each in source[:-1]:
        if each in tokenizer().special_ids:
            rest = target[target.index(each) + 1 :]
            length = next(n for n, piece in enumerate(rest) if piece in tokenizer().special_ids)
            found += [at, at + length]
            at += length
        else:
            at += 1
    return found


def test_span_counts_and_lengths_match_rates() -> None:
    spans = SpanCorruptor(tokenizer(), sentinels=SENTINELS)
    ids = np.array(tokenizer().encode(" ".join(texts()[:60]))[:300])
    torn = [spans(ids, 1000, (1, epoch), 0) for epoch in range(200)]
    marks = np.array([tokenizer().special_id(sentinel(n)) for n in range(SENTINELS)])
    counts = [np.isin(each.source, marks).sum() for each in torn]
    assert set(counts) == {15}  # 45 pieces, 3 in each
    assert {len(each.target) for each in torn} == {45 + 15 + 1 + 2}
    first = np.mean([each.source[0] in marks for each in torn])
    last = np.mean([each.source[-2] in marks for each in torn])
    assert 0.01 < first < 0.15  # anywhere, the ends included
    assert 0.01 < last < 0.15
    assert spans.max_spans(300) == 15
