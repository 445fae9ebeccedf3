"""Ranking of logits: top values, ties and normalizers."""

import numpy as np
import pytest
import torch

from regard.engine.library import library
from regard.engine.ranking import rank

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")


@pytest.mark.parametrize(("rows", "size", "count"), [(1, 1, 1), (3, 7, 7), (5, 8, 3), (40, 999, 5)])
def test_top_values_are_sorted(rows: int, size: int, count: int) -> None:
    x = torch.randn(rows, size) * 5
    values, indices, sums = rank(x.numpy(), count)
    expected = x.sort(descending=True, stable=True)
    assert (values == expected.values[:, :count].numpy()).all()
    assert (indices == expected.indices[:, :count].numpy()).all()
    np.testing.assert_allclose(sums, x.logsumexp(-1).numpy(), rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])  # of the engine, and of numpy
def test_ties_are_ranked_by_index(dtype: type) -> None:
    values, indices, _ = rank(np.array([[1.0, 3, 3, 2, 3, 0, 0, 0, 0, 3]], dtype), 3)
    assert values.tolist() == [[3, 3, 3]]
    assert indices.tolist() == [[1, 2, 4]]


@pytest.mark.parametrize("count", [0, 6])
def test_more_than_there_are_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"the {count} highest of 5 logits"):
        rank(np.zeros((2, 5), np.float32), count)
