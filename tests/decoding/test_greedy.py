"""Greedy decoding of a model that counts down."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.decoding.greedy import greedy

END = 0


@dataclass(frozen=True)
class Countdown:
    """Each row counts down from its number to 0, the end token."""

    left: NDArray
    batch_sizes: list[int]

    def reorder(self, rows: NDArray) -> "Countdown":
        return Countdown(self.left[rows], self.batch_sizes)


class Counter:
    def step(self, ids: NDArray, state: Countdown) -> tuple[NDArray, Countdown]:
        assert ids.tolist() == state.left.tolist()
        state.batch_sizes.append(len(ids))
        logits = np.eye(10)[state.left - 1]
        return logits, Countdown(state.left - 1, state.batch_sizes)


def test_finished_rows_leave_the_batch() -> None:
    first = np.array([3, 1, 5])
    state = Countdown(first, [])
    generated = greedy(Counter(), state, first, END, limits=[10, 10, 10])
    assert generated == [[2, 1], [], [4, 3, 2, 1]]
    assert state.batch_sizes == [3, 2, 2, 1, 1]


def test_limits_bound_the_output() -> None:
    first = np.array([9, 9])
    generated = greedy(Counter(), Countdown(first, []), first, END, limits=[2, 4])
    assert generated == [[8, 7], [8, 7, 6, 5]]
