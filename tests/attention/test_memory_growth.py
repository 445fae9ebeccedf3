"""Memory of the sub-quadratic kinds: the largest tensor grows linearly with the length."""

import pytest
import torch
from tests.attention.memory import Largest

from regard.attention.base import AttentionSpec
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention, Sizes

CPU = torch.device("cpu")


def largest_tensor(kind: str, causal: bool, length: int) -> int:
    """Return the number of elements of the largest tensor, forward or backward."""
    attention = AttentionSpec.model_validate(kind).build(Sizes(16, 2, 8, 4096))
    q, k, v = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
    mask = (
        AttentionMask.causal(0, length, CPU) if causal else AttentionMask.bidirectional(length, CPU)
    )
    with Largest() as mode:
        attention(q, k, v, mask, InAttention()).sum().backward()
    return mode.largest // q.element_size()


@pytest.mark.parametrize(
    ("kind", "causal"),
    [
        ("linear", False),
        ("linear", True),
        ("block-local", False),
        ("block-local", True),
        ("compressed", False),
        ("compressed", True),
        ("linformer", False),
        ("window", False),
        ("window", True),
        ("bigbird", False),
    ],
)
def test_largest_tensor_grows_linearly_with_length(kind: str, causal: bool) -> None:
    short, long = (largest_tensor(kind, causal, length) for length in (2048, 4096))
    assert long <= 2.1 * short
    assert long < 4096**2 / 4


def test_quadratic_tensor_is_detected() -> None:
    assert largest_tensor("reference", causal=True, length=1024) == 2 * 1024**2
