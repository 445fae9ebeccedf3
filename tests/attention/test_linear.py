"""Linear attention against its weight matrix and against its recurrence."""

import pytest
import torch
from torch import Tensor

from regard.attention.linear import CHUNK, Linear
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention

B, H, K = 2, 3, 5
CPU = torch.device("cpu")


def features(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def by_matrix(q: Tensor, k: Tensor, v: Tensor, may_attend: Tensor) -> Tensor:
    """Compute outputs from all weights: masked feature products, normalized rows."""
    products = torch.einsum("bhik,bhjk->bhij", features(q), features(k)) * may_attend
    return torch.einsum("bhij,bhjk->bhik", products / products.sum(-1, keepdim=True), v)


def random_qkv(queries: int, keys: int) -> list[Tensor]:
    return [torch.randn(B, H, n, K, requires_grad=True) for n in (queries, keys, keys)]


def assert_equal_to_matrix(qkv: list[Tensor], mask: AttentionMask, may_attend: Tensor) -> None:
    outputs, expected = Linear()(*qkv, mask, InAttention()), by_matrix(*qkv, may_attend)
    assert torch.allclose(outputs, expected, atol=1e-5)
    grad_output = torch.randn_like(outputs)
    gradients = (
        torch.autograd.grad((output * grad_output).sum(), qkv) for output in (outputs, expected)
    )
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("length", [1, 7, CHUNK, CHUNK + 1, 3 * CHUNK - 5])
def test_outputs_and_gradients_equal_the_weight_matrix(length: int) -> None:
    token_mask = torch.arange(length) < torch.tensor([[length], [length // 2 + 1]])
    full = torch.ones(length, length)
    assert_equal_to_matrix(
        random_qkv(length, length), AttentionMask.bidirectional(length, CPU), full
    )
    assert_equal_to_matrix(
        random_qkv(length, length),
        AttentionMask.bidirectional(length, CPU, token_mask),
        token_mask[:, None, None].float(),
    )
    assert_equal_to_matrix(
        random_qkv(length, length), AttentionMask.causal(0, length, CPU), full.tril()
    )
    later = full.tril()[length // 2 :]  # queries are the last tokens, keys are all
    assert_equal_to_matrix(
        random_qkv(len(later), length),
        AttentionMask.causal(length - len(later), len(later), CPU),
        later.float(),
    )


def test_causal_outputs_equal_the_recurrence() -> None:
    q, k, v = (x.detach().double() for x in random_qkv(20, 20))
    outputs = Linear()(q, k, v, AttentionMask.causal(0, 20, CPU), InAttention())
    s, z = torch.zeros(K, K).double(), torch.zeros(K).double()
    for i in range(20):
        s += torch.outer(features(k[1, 2, i]), v[1, 2, i])
        z += features(k[1, 2, i])
        query = features(q[1, 2, i])
        assert torch.allclose(outputs[1, 2, i], query @ s / (query @ z), atol=1e-10)


def test_long_sums_are_accurate_in_bfloat16() -> None:
    """Values that are all 1 have the mean 1, for any number of tokens."""
    q, k = torch.randn(2, 1, 1, 4096, K)
    ones = torch.ones_like(q)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = Linear()(
            *(x.bfloat16() for x in (q, k, ones)), AttentionMask.causal(0, 4096, CPU), None
        )
    assert (outputs.float() - 1).abs().max() < 0.02
