"""Soft lookup and self-attention without projections."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.soft_lookup import self_attention, soft_lookup


def test_sharp_query_returns_its_value() -> None:
    keys, values = torch.eye(4) * 50, torch.arange(8.0).view(4, 2)
    assert torch.allclose(soft_lookup(keys[2], keys, values), values[2])


def test_uniform_scores_return_the_mean_value() -> None:
    values = torch.randn(5, 3)
    output = soft_lookup(torch.zeros(4), torch.randn(5, 4), values)
    assert torch.allclose(output, values.mean(0), atol=1e-6)


def test_output_matches_equation() -> None:
    x = torch.randn(6, 3)
    scores = torch.tensor([[float(x[i] @ x[j]) for j in range(6)] for i in range(6)])
    weights = scores.exp() / scores.exp().sum(1, keepdim=True)
    expected = torch.stack([sum(weights[i, j] * x[j] for j in range(6)) for i in range(6)])
    assert torch.allclose(self_attention(x), expected, atol=1e-5)


@given(order=st.permutations(range(7)))
def test_permuting_tokens_permutes_outputs(order: list[int]) -> None:
    """p(sa(X)) = sa(p(X))"""
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(self_attention(x)[order], self_attention(x[order]), atol=1e-5)
