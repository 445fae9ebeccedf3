"""Sinusoidal positions: the equation, positions beyond the table, dimensions."""

import math

import pytest
import torch

from regard.positions.sinusoidal import Sinusoidal


def test_vectors_match_equation() -> None:
    table = Sinusoidal(dim=6, base=10_000, layout="interleaved", max_length=50)
    vectors = table(torch.zeros(1, 50, 6), 0)[0]
    for pos in (0, 1, 7, 49):
        for k in range(3):
            angle = pos / 10_000 ** (2 * k / 6)
            assert vectors[pos, 2 * k] == pytest.approx(math.sin(angle), abs=1e-6)
            assert vectors[pos, 2 * k + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_positions_beyond_the_table() -> None:
    short = Sinusoidal(8, 10_000, "interleaved", max_length=4)
    long = Sinusoidal(8, 10_000, "interleaved", max_length=40)
    x = torch.zeros(1, 10, 8)
    assert torch.equal(short(x, 3), long(x, 3))


@pytest.mark.parametrize("dim", [5, 8])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_odd_and_even_dimensions(dim: int, layout: str) -> None:
    assert Sinusoidal(dim, 10_000, layout, 16)(torch.zeros(1, 9, dim), 0).shape == (1, 9, dim)
