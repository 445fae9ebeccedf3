"""Block-local attention against dense attention with the mask of equal blocks."""

import pytest
import torch

from regard.attention.block_local import BlockLocal
from regard.attention.masks import AttentionMask, Causal, Full
from regard.attention.reference import dot_product_attention
from regard.config import kinds
from regard.positions.base import PositionSpec, Sizes

B, H, K = 2, 4, 8

SIZES = Sizes(dim=H * K, heads=H, head_dim=K, max_length=64)


@pytest.mark.parametrize("size", [1, 3, 4, 100])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("position", kinds("regard.positions"))
def test_equals_dense_attention_with_the_same_mask(size: int, causal: bool, position: str) -> None:
    length = 11
    encoding = PositionSpec.model_validate(position).in_attention(SIZES)
    qkv = [torch.randn(B, H, length, K, requires_grad=True) for _ in range(3)]
    i, j = torch.arange(length)[:, None], torch.arange(length)
    may_attend = (i // size == j // size) & ((j <= i) | (not causal))
    token_mask = torch.arange(length) < torch.tensor([[11], [6]])
    mask = AttentionMask(Causal() if causal else Full(), j, j, token_mask)
    outputs = BlockLocal(size)(*qkv, mask, encoding)
    bias = encoding.bias(qkv[0], j, j)
    dense, weights = dot_product_attention(*qkv, may_attend & token_mask[:, None, None], bias)
    value_offsets = encoding.values(weights, j, j)
    dense = dense if value_offsets is None else dense + value_offsets
    assert torch.allclose(outputs, dense, atol=1e-5)
    grad_output = torch.randn_like(outputs)
    gradients = (
        torch.autograd.grad((output * grad_output).sum(), qkv) for output in (outputs, dense)
    )
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
