"""Batches: nothing lost, nothing over budget, the same for the same seed."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching import Example, batches, collate, plan
from regard.errors import DataError

Pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=200)


@given(pairs=Pairs, budget=st.integers(60, 400), seed=st.integers(0, 5))
def test_every_example_once_an_epoch_and_never_over_budget(
    pairs: list[tuple[int, int]], budget: int, seed: int
) -> None:
    lengths = np.array(pairs)
    planned = plan(lengths, budget, seed, epoch=0)
    assert sorted(index for batch in planned for index in batch) == list(range(len(pairs)))
    for batch in planned:
        assert len(batch) * lengths[batch].max(axis=0).sum() <= budget
    assert planned == plan(lengths, budget, seed, epoch=0)


def test_epochs_differ_and_like_lengths_go_together() -> None:
    random = np.random.default_rng(0)
    source = random.integers(5, 40, 2000)  # translations are about as long as what they translate
    lengths = np.stack([source, source + random.integers(-2, 3, 2000)], axis=1)
    first, second = plan(lengths, 1000, 1, 0), plan(lengths, 1000, 1, 1)
    assert first != second
    real = sum(lengths[batch].sum() for batch in first)
    padded = sum(len(batch) * lengths[batch].max(axis=0).sum() for batch in first)
    assert real / padded > 0.85


def test_an_example_larger_than_a_batch_is_named() -> None:
    examples = [Example([5] * 5, [5] * 5), Example([5] * 60, [5] * 60)]
    with pytest.raises(DataError, match="the longest pair has 120 tokens and a batch holds 100"):
        batches(examples, budget=100, seed=1, filler=0)


def test_rows_are_padded_on_the_right_and_marked() -> None:
    batch = collate([Example([5, 6, 7], [2, 8, 3]), Example([5], [2, 3])], filler=0)
    assert batch.source.tolist() == [[5, 6, 7], [5, 0, 0]]
    assert batch.source_padding.tolist() == [[True] * 3, [True, False, False]]
    assert batch.target.tolist() == [[2, 8, 3], [2, 3, 0]]
    assert batch.tokens == 3


def test_batches_go_on_past_the_end_of_an_epoch() -> None:
    stream = batches([Example([4], [2, 3])], budget=10, seed=1, filler=0)
    assert torch.equal(next(stream).source, next(stream).source)
