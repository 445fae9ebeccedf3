"""A computed permutation: nothing twice, nothing missing, nothing of the old order left."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sampling.counter_rng import Permutation

Sizes = st.integers(1, 3000)


@given(size=Sizes, key=st.lists(st.integers(0, 2**40), min_size=1, max_size=3))
def test_it_is_a_bijection(size: int, key: list[int]) -> None:
    assert np.array_equal(np.sort(Permutation(size, *key).all()), np.arange(size))


@given(size=Sizes, start=st.integers(0, 2999), length=st.integers(0, 50))
def test_any_stretch_is_that_of_the_whole(size: int, start: int, length: int) -> None:
    shuffle = Permutation(size, 1, 2)
    places = np.arange(min(start, size), min(start + length, size))
    assert np.array_equal(shuffle(places), shuffle.all()[places])


def test_it_looks_random() -> None:
    size = 50_000
    first, second = Permutation(size, 1, 0).all(), Permutation(size, 1, 1).all()
    bound = 4 / np.sqrt(size)  # four standard deviations of the correlation of noise
    here = np.arange(size)
    for one, other in ((here, first), (first, second), (first[:-1], first[1:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < bound
    steps = np.diff(first)
    assert np.unique(steps).size > size / 3  # of random steps, most are like no other


def test_sizes_beyond_memory_cost_nothing() -> None:
    shuffle = Permutation(10**15, 7)
    found = shuffle(np.arange(10**14, 10**14 + 1000))
    assert found.min() >= 0
    assert found.max() < 10**15
    assert np.unique(found).size == 1000
