"""Rotary positions: products depend on distance; even head dimensions only."""

import math

import pytest
import torch

from regard.errors import ConfigError
from regard.positions.base import PositionSpec, Sizes
from regard.positions.rotary import Rotary, Scaling


@pytest.mark.parametrize("pairs", ["adjacent", "halves"])
def test_products_depend_only_on_distance(pairs: str) -> None:
    rotary = Rotary(8, 10_000, pairs)
    q, k = torch.randn(2, 1, 1, 1, 8)
    products = [
        float((rotary.rotate(q, torch.tensor([i])) * rotary.rotate(k, torch.tensor([i - 3]))).sum())
        for i in (3, 10, 200)
    ]
    assert products == pytest.approx([products[0]] * 3, abs=1e-4)
    assert torch.allclose(rotary.rotate(q, torch.tensor([9])).norm(), q.norm(), atol=1e-5)
    assert torch.equal(rotary.rotate(q, torch.tensor([0])), q)


def test_linear_scaling_divides_positions() -> None:
    scaled = Rotary(8, 10_000, "halves", Scaling(factor=4))
    x = torch.randn(1, 1, 5, 8)
    positions = torch.arange(5) * 12
    expected = Rotary(8, 10_000, "halves").rotate(x, positions / 4)
    torch.testing.assert_close(scaled.rotate(x, positions), expected)


def test_llama_3_scaling_divides_only_long_periods() -> None:
    frequencies = torch.tensor([2 * math.pi / period for period in (2, 25, 50, 100, 1000)])
    scaling = Scaling(factor=8, context=100)  # periods of 25 and 100 tokens are the limits
    middle = (2 - 1) / (4 - 1)  # a period of 50 tokens occurs twice
    expected = torch.tensor([1, 1, middle + (1 - middle) / 8, 1 / 8, 1 / 8]) * frequencies
    torch.testing.assert_close(scaling(frequencies), expected)


def test_odd_head_dim_is_refused() -> None:
    with pytest.raises(ConfigError, match="even"):
        PositionSpec.model_validate("rotary").in_attention(Sizes(9, 3, 3, 8))
