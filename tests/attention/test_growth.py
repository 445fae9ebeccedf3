"""No tensor of all pairs is ever made, forward or backward, where a kind promises so."""

import pytest
import torch
from tests.attention.memory import Largest

from regard.attention.base import AttentionSpec
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention, Sizes

HERE = torch.device("cpu")


def largest(kind: str, causal: bool, length: int) -> int:
    """How many numbers the largest tensor has that any operation gives."""
    attention = AttentionSpec.model_validate(kind).build(Sizes(16, 2, 8, 4096))
    q, k, v = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
    mask = (
        AttentionMask.causal(0, length, HERE)
        if causal
        else AttentionMask.bidirectional(length, HERE)
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
def test_the_largest_tensor_grows_with_the_length_and_no_faster(kind: str, causal: bool) -> None:
    short, long = (largest(kind, causal, length) for length in (2048, 4096))
    assert long <= 2.1 * short
    assert long < 4096**2 / 4


def test_all_pairs_would_be_noticed() -> None:
    assert largest("reference", causal=True, length=1024) == 2 * 1024**2
