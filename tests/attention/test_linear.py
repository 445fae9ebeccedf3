"""Linear attention: the weights as a matrix, and as a recurrence, written out."""

import pytest
import torch
from torch import Tensor

from regard.attention.linear import CHUNK, Linear
from regard.attention.masks import AttentionMask
from regard.positions.base import InAttention

B, H, K = 2, 3, 5
HERE = torch.device("cpu")


def features(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def by_matrix(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """Every pair: the features' product, hidden ones out, each row divided by its sum."""
    alike = torch.einsum("bhik,bhjk->bhij", features(q), features(k)) * visible
    return torch.einsum("bhij,bhjk->bhik", alike / alike.sum(-1, keepdim=True), v)


def drawn(queries: int, keys: int) -> list[Tensor]:
    return [torch.randn(B, H, n, K, requires_grad=True) for n in (queries, keys, keys)]


def agree(given: list[Tensor], mask: AttentionMask, visible: Tensor) -> None:
    ours, theirs = Linear()(*given, mask, InAttention()), by_matrix(*given, visible)
    assert torch.allclose(ours, theirs, atol=1e-5)
    toward = torch.randn_like(ours)
    gradients = (torch.autograd.grad((each * toward).sum(), given) for each in (ours, theirs))
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("length", [1, 7, CHUNK, CHUNK + 1, 3 * CHUNK - 5])
def test_sums_in_another_order_are_the_same_forward_and_backward(length: int) -> None:
    token_mask = torch.arange(length) < torch.tensor([[length], [length // 2 + 1]])
    everyone = torch.ones(length, length)
    agree(drawn(length, length), AttentionMask.bidirectional(length, HERE), everyone)
    agree(
        drawn(length, length),
        AttentionMask.bidirectional(length, HERE, token_mask),
        token_mask[:, None, None].float(),
    )
    agree(drawn(length, length), AttentionMask.causal(0, length, HERE), everyone.tril())
    later = everyone.tril()[length // 2 :]  # the last words ask, all are there
    agree(
        drawn(len(later), length),
        AttentionMask.causal(length - len(later), len(later), HERE),
        later.float(),
    )


def test_it_is_a_recurrence() -> None:
    q, k, v = (x.detach().double() for x in drawn(20, 20))
    answers = Linear()(q, k, v, AttentionMask.causal(0, 20, HERE), InAttention())
    s, z = torch.zeros(K, K).double(), torch.zeros(K).double()
    for i in range(20):
        s += torch.outer(features(k[1, 2, i]), v[1, 2, i])
        z += features(k[1, 2, i])
        asked = features(q[1, 2, i])
        assert torch.allclose(answers[1, 2, i], asked @ s / (asked @ z), atol=1e-10)


def test_in_bfloat16_long_sums_are_not_lost() -> None:
    """Values that are all 1 have the average 1, however many there are."""
    q, k = torch.randn(2, 1, 1, 4096, K)
    ones = torch.ones_like(q)
    with torch.autocast("cpu", torch.bfloat16):
        answers = Linear()(
            *(x.bfloat16() for x in (q, k, ones)), AttentionMask.causal(0, 4096, HERE), None
        )
    assert (answers.float() - 1).abs().max() < 0.02
