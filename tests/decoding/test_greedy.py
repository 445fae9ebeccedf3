"""Greedy decoding of a model that counts down."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.greedy import greedy

END = 0


@dataclass(frozen=True)
class Countdown:
    """Each row counts down from its number to 0, the end token."""

    left: Tensor
    batch_sizes: list[int]

    def reorder(self, rows: Tensor) -> "Countdown":
        return Countdown(self.left.index_select(0, rows), self.batch_sizes)


class Counter:
    def step(self, ids: Tensor, state: Countdown) -> tuple[Tensor, Countdown]:
        assert torch.equal(ids, state.left)
        state.batch_sizes.append(len(ids))
        logits = torch.nn.functional.one_hot(state.left - 1, 10).float()
        return logits, Countdown(state.left - 1, state.batch_sizes)


def test_finished_rows_leave_the_batch() -> None:
    first = torch.tensor([3, 1, 5])
    state = Countdown(first, [])
    generated = greedy(Counter(), state, first, END, limits=[10, 10, 10])
    assert generated == [[2, 1], [], [4, 3, 2, 1]]
    assert state.batch_sizes == [3, 2, 2, 1, 1]


def test_limits_bound_the_output() -> None:
    first = torch.tensor([9, 9])
    generated = greedy(Counter(), Countdown(first, []), first, END, limits=[2, 4])
    assert generated == [[8, 7], [8, 7, 6, 5]]
