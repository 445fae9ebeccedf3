"""Chance is a function of its key and place, and looks like chance."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sampling.counter_rng import uniform


@given(st.integers(0, 2**32), st.integers(0, 1000), st.integers(0, 10**9))
def test_a_place_draws_the_same_alone_and_among_others(seed: int, epoch: int, place: int) -> None:
    some = np.array([place + 3, place, 7])
    others = np.arange(3)
    (alone,) = uniform((seed, epoch), some[1:2], others[1:2])
    assert uniform((seed, epoch), some, others)[1] == alone
    assert 0 <= alone < 1


def test_keys_and_places_draw_apart_and_evenly() -> None:
    rows, places = (grid.ravel() for grid in np.mgrid[:200, :100])
    drawn = np.stack([uniform(key, rows, places) for key in ((1, 0), (1, 1), (2, 0))])
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    assert abs(counts / 3000 - 1).max() < 0.1
    both_ways = np.stack([drawn[0], drawn[1], drawn[2], uniform((1, 0), places, rows)])
    correlation = np.corrcoef(both_ways) - np.eye(4)
    assert abs(correlation).max() < 0.03
    grid = drawn[0].reshape(200, 100)
    assert abs(np.corrcoef(grid[:-1].ravel(), grid[1:].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(grid[:, :-1].ravel(), grid[:, 1:].ravel())[0, 1]) < 0.03
