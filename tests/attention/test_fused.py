"""Fused attention: where the kernel is slow, the equation is used, with the same result."""

import pytest
import torch
from torch import Tensor

from regard.attention.fused import fused
from regard.attention.masks import AttentionMask
from regard.attention.reference import masked_attention
from regard.positions.base import InAttention


@pytest.mark.parametrize("backward", [True, False])
def test_bfloat16_on_a_cpu_matches_the_reference(backward: bool) -> None:
    token_mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [False] * 5])
    mask = AttentionMask.bidirectional(5, torch.device("cpu"), token_mask)
    q, k, v = torch.randn(3, 3, 2, 5, 8)
    exact = masked_attention(q, k, v, mask, InAttention())[0]
    rounded = [x.bfloat16().requires_grad_(backward) for x in (q, k, v)]
    with torch.set_grad_enabled(backward):
        output = fused(*rounded, mask, InAttention())
    assert output.dtype == torch.bfloat16
    assert torch.allclose(output.float(), exact, atol=3e-2)
    assert torch.equal(output[2], torch.zeros_like(output[2]))  # nothing to attend to
    if backward:
        gradients: tuple[Tensor, ...] = torch.autograd.grad(output.float().sum(), rounded)
        assert all(gradient.isfinite().all() for gradient in gradients)
