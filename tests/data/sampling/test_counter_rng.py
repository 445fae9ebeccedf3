"""Random permutations and numbers computed from a counter."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.sampling.counter_rng import Permutation, uniform

Sizes = st.integers(1, 3000)


@settings(deadline=None)
@given(size=Sizes, key=st.lists(st.integers(0, 2**40), min_size=1, max_size=3))
def test_permutation_is_a_bijection(size: int, key: list[int]) -> None:
    assert np.array_equal(np.sort(Permutation(size, *key).all()), np.arange(size))


@settings(deadline=None)
@given(size=Sizes, start=st.integers(0, 2999), length=st.integers(0, 50))
def test_slice_equals_slice_of_whole_permutation(size: int, start: int, length: int) -> None:
    permutation = Permutation(size, 1, 2)
    indices = np.arange(min(start, size), min(start + length, size))
    assert np.array_equal(permutation(indices), permutation.all()[indices])


def test_permutation_looks_random() -> None:
    size = 50_000
    first, second = Permutation(size, 1, 0).all(), Permutation(size, 1, 1).all()
    bound = 4 / np.sqrt(size)  # four standard deviations of the correlation of noise
    identity = np.arange(size)
    for one, other in ((identity, first), (first, second), (first[:-1], first[1:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < bound
    steps = np.diff(first)
    assert np.unique(steps).size > size / 3  # most random steps are distinct


def test_permutation_larger_than_memory_is_cheap() -> None:
    permutation = Permutation(10**15, 7)
    elements = permutation(np.arange(10**14, 10**14 + 1000))
    assert elements.min() >= 0
    assert elements.max() < 10**15
    assert np.unique(elements).size == 1000


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 1000), st.integers(0, 10**9))
def test_uniform_of_a_counter_does_not_depend_on_others(
    seed: int, epoch: int, counter: int
) -> None:
    some = np.array([counter + 3, counter, 7])
    others = np.arange(3)
    (alone,) = uniform((seed, epoch), some[1:2], others[1:2])
    assert uniform((seed, epoch), some, others)[1] == alone
    assert 0 <= alone < 1


def test_uniform_is_independent_between_keys_and_counters() -> None:
    rows, columns = (grid.ravel() for grid in np.mgrid[:200, :100])
    drawn = np.stack([uniform(key, rows, columns) for key in ((1, 0), (1, 1), (2, 0))])
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert abs(counts / 3000 - 1).max() < 0.1
    both_ways = np.stack([drawn[0], drawn[1], drawn[2], uniform((1, 0), columns, rows)])
    correlation = np.corrcoef(both_ways) - np.eye(4)
    assert abs(correlation).max() < 0.03
    grid = drawn[0].reshape(200, 100)
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.03
