"""Rotary positions: products depend on distance; even head dimensions only."""

import pytest
import torch

from regard.errors import ConfigError
from regard.positions.base import PositionSpec, Sizes
from regard.positions.rotary import Rotary


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


def test_odd_head_dim_is_refused() -> None:
    with pytest.raises(ConfigError, match="even"):
        PositionSpec.model_validate("rotary").in_attention(Sizes(9, 3, 3, 8))
