"""Batch samplers: completeness, weights, token budget, resuming."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import validate
from regard.data.config import DataSpec
from regard.data.sampling.sampler import (
    BucketSampler,
    DataCursor,
    EpochOrder,
    SourceQuota,
    WindowSampler,
    iter_batches,
    packed_cost,
    padded_cost,
    split_into_batches,
)
from regard.data.store.prepare import prepare
from regard.data.store.store import Store
from regard.data.tokenizers.base import TokenizerSpec
from regard.errors import ConfigError, DataError

BYTE = TokenizerSpec.model_validate("byte")


def store_of(folder: Path, kind: str, *sources: Sequence[str], weights: Sequence[float]) -> Store:
    given: list[dict[str, Any]] = []
    for number, (lines, weight) in enumerate(zip(sources, weights, strict=True)):
        path = folder / f"{number}.tsv"
        path.write_text("".join(f"{line}\n" for line in lines))
        given.append({"kind": kind, "path": str(path), "weight": weight})
        if kind == "tsv":
            given[-1]["languages"] = ["fr", "en"]
    (folder / "dev.tsv").write_text("not in train\tnot in train\n")
    content = {
        "train": given,
        "dev": {**given[0], "path": str(folder / "dev.tsv")},
        "prepared": str(folder / "prepared"),
        "filters": {"max_ratio": 1000},
    }
    return prepare(validate(DataSpec, content, "recipe"), BYTE, 10_000).train


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return two sources of 300 and 100 distinct pairs of many lengths."""
    random = np.random.default_rng(0)

    def lines(first: int, count: int) -> list[str]:
        lengths = random.integers(5, 40, size=count)
        return [
            f"{number:04}{'a' * length}\t{number:04}{'b' * (length + length % 3)}"
            for number, length in enumerate(lengths.tolist(), start=first)
        ]

    folder = tmp_path_factory.mktemp("pairs")
    return store_of(folder, "tsv", lines(0, 300), lines(300, 100), weights=(1, 2.5))


Shares = st.lists(
    st.builds(
        SourceQuota, st.integers(0, 60), st.sampled_from([0.1, 0.5, 1, 1.5, 3]), st.integers(1, 2)
    ),
    min_size=1,
    max_size=4,
).filter(lambda shares: any(share.examples for share in shares))


@settings(deadline=None)
@given(shares=Shares, seed=st.integers(0, 9))
def test_epoch_shows_examples_by_source_weight(shares: list[SourceQuota], seed: int) -> None:
    order = EpochOrder(shares, seed)
    source, unit, way = order.slice(3, 0, order.size(3))
    for number, share in enumerate(shares):
        here = source == number
        shown = Counter(zip(unit[here].tolist(), way[here].tolist(), strict=True))
        assert sum(shown.values()) == share.in_epoch(3) * share.directions
        # As evenly as can be: no unit is shown twice more often than another.
        often = {
            shown[each, side] for each in range(share.examples) for side in range(share.directions)
        }
        assert max(often, default=0) - min(often, default=0) <= 1


def test_next_epoch_continues_with_omitted_examples() -> None:
    order = EpochOrder([SourceQuota(100, 0.25)], seed=1)
    epochs = [set(order.slice(epoch, 0, 25)[1].tolist()) for epoch in range(4)]
    assert set().union(*epochs) == set(range(100))
    assert np.ptp(sorted(epochs[0])) > 50  # not a quarter in a row


def test_weights_by_epoch_change_the_mixture_and_miss_no_example() -> None:
    changing, constant = SourceQuota(100, (0.25, 0.5, 0.0, 1.0)), SourceQuota(10, 1.0)
    order = EpochOrder([changing, constant], seed=1)
    assert [order.size(epoch) for epoch in range(6)] == [35, 60, 10, 110, 110, 110]
    assert order.fewest == 10
    shown = []
    for epoch in range(4):
        source, example, _ = order.slice(epoch, 0, order.size(epoch))
        assert sorted(example[source == 1].tolist()) == list(range(10))
        shown += example[source == 0].tolist()
    assert Counter(Counter(shown).values()) == {2: 75, 1: 25}  # as often as can be
    # Epochs before a change are those of an unchanged mixture: a recipe can be changed meanwhile.
    unchanged = EpochOrder([SourceQuota(100, 0.25), constant], seed=1)
    for mine, theirs in zip(order.slice(0, 0, 35), unchanged.slice(0, 0, 35), strict=True):
        assert np.array_equal(mine, theirs)


def plan(store: Store, budget: int = 400, seed: int = 1, cost: Any = packed_cost) -> BucketSampler:
    return BucketSampler(store, [(0, 1)] * len(store.sections), (2, 2), budget, seed, cost)


def test_pairs_appear_in_both_directions_by_weight(pairs: Store) -> None:
    whole = plan(pairs)
    seen: Counter[tuple[int, int]] = Counter()
    for epoch in range(2):
        for pool in range(whole.num_pools):
            for batch in whole.pool(epoch, pool):
                seen.update(zip(batch.rows.tolist(), batch.sides.tolist(), strict=True))
    assert {seen[row, side] for row in range(300) for side in (0, 1)} == {2}
    assert {seen[row, side] for row in range(300, 400) for side in (0, 1)} == {5}
    assert len(seen) == 800


@pytest.mark.parametrize("cost", [packed_cost, padded_cost])
def test_batches_fill_the_token_budget(pairs: Store, cost: Any) -> None:
    whole = plan(pairs, cost=cost)
    sizes, real = [], 0
    for pool in range(whole.num_pools):
        for batch in whole.pool(0, pool):
            lengths = pairs.lengths(batch.rows) + 2
            turned = np.where(batch.sides[:, None] == 0, lengths, lengths[:, ::-1])
            sizes.append(int(cost(turned)[-1]))
            real += int(lengths.sum())
    assert max(sizes) <= 400
    assert np.median(sizes) > 300
    assert real / sum(sizes) > 0.85  # rows of like length go together: little is padding


@settings(deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=80),
    budget=st.integers(60, 300),
    cost=st.sampled_from([packed_cost, padded_cost]),
)
def test_split_into_batches_keeps_all_rows_and_fills_batches(
    lengths: list[tuple[int, int]], budget: int, cost: Any
) -> None:
    rows = np.array(sorted(lengths, key=lambda pair: (pair[1], pair[0])))
    cuts = list(split_into_batches(rows, budget, cost))
    assert [n for each in cuts for n in range(each.start, each.stop)] == list(range(len(rows)))
    for each in cuts:
        assert cost(rows[each])[-1] <= budget
        if each.stop < len(rows):
            assert cost(rows[each.start : each.stop + 1])[-1] > budget


def test_order_depends_on_seed_and_epoch_only(pairs: Store) -> None:
    def rows(seed: int, epoch: int) -> list[list[int]]:
        return [batch.rows.tolist() for batch in plan(pairs, seed=seed).pool(epoch, 0)]

    assert rows(1, 0) == rows(1, 0)
    assert rows(1, 0) != rows(2, 0)
    assert rows(1, 0) != rows(1, 1)


def test_sampler_resumes_from_any_cursor(pairs: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.sampling.sampler.POOL", 10)
    whole = plan(pairs)
    assert whole.num_pools > 3
    all_of_it = list(islice(iter_batches(whole, DataCursor()), 500))
    assert all_of_it[-1][1].epoch >= 2
    for stopped in (0, 1, 9, 10, 57, 199, 444):
        resumed = iter_batches(plan(pairs), all_of_it[stopped][1])
        for (batch, after), (again, then) in zip(all_of_it[stopped + 1 :], resumed, strict=False):
            assert after == then
            assert np.array_equal(batch.rows, again.rows)
            assert np.array_equal(batch.sides, again.sides)


def test_cursor_of_other_data_is_refused(pairs: Store) -> None:
    for strange in (DataCursor(0, 99), DataCursor(0, 0, 10_000)):
        with pytest.raises(DataError, match="are not those of the checkpoint"):
            next(iter_batches(plan(pairs), strange))


def test_example_larger_than_batch_is_refused(pairs: Store) -> None:
    longest = pairs.stats.longest + 4
    with pytest.raises(DataError, match=rf"has {longest} tokens and a batch holds {longest - 1}"):
        plan(pairs, budget=longest - 1)
    plan(pairs, budget=longest)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("text")
    first, second = ["".join(chr(97 + n % 26) for n in range(1000))], ["tiny"]
    return store_of(folder, "text", first, second, weights=(1, 3))


def test_windows_cover_the_text_at_another_offset_each_epoch(text: Store) -> None:
    whole = WindowSampler(text, context=16, budget=64, seed=1)
    begins = []
    for epoch in range(3):
        batches = [batch for pool in range(whole.num_pools) for batch in whole.pool(epoch, pool)]
        section = np.concatenate([batch.sections for batch in batches])
        starts = np.concatenate([batch.starts for batch in batches])
        assert max(len(batch.starts) for batch in batches) == 4
        tokens = text.sections[0].tokens[0]
        ours = starts[section == 0]
        predicted = (ours[:, None] + 1 + np.arange(16)) % tokens
        assert set(predicted.flatten().tolist()) == set(range(tokens))
        assert predicted.size < tokens + 16
        assert (section == 1).sum() == 3
        begins.append(set(ours.tolist()))
    assert begins[0] != begins[1] != begins[2]


def test_window_larger_than_batch_is_refused(text: Store) -> None:
    with pytest.raises(ConfigError, match=r"a batch of 64 tokens cannot hold a window of 65"):
        WindowSampler(text, context=65, budget=64, seed=1)
