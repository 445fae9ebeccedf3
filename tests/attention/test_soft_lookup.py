"""The soft look-up and bare self-attention."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.soft_lookup import self_attention, soft_lookup


def test_a_sharp_query_finds_its_value() -> None:
    keys, values = torch.eye(4) * 50, torch.arange(8.0).view(4, 2)
    assert torch.allclose(soft_lookup(keys[2], keys, values), values[2])


def test_a_query_that_matches_all_alike_gives_the_average() -> None:
    values = torch.randn(5, 3)
    answer = soft_lookup(torch.zeros(4), torch.randn(5, 4), values)
    assert torch.allclose(answer, values.mean(0), atol=1e-6)


def test_the_answer_is_the_equation_written_out() -> None:
    x = torch.randn(6, 3)
    scores = torch.tensor([[float(x[i] @ x[j]) for j in range(6)] for i in range(6)])
    weights = scores.exp() / scores.exp().sum(1, keepdim=True)
    written_out = torch.stack([sum(weights[i, j] * x[j] for j in range(6)) for i in range(6)])
    assert torch.allclose(self_attention(x), written_out, atol=1e-5)


@given(order=st.permutations(range(7)))
def test_permuting_words_permutes_answers(order: list[int]) -> None:
    """p(sa(X)) = sa(p(X))"""
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(self_attention(x)[order], self_attention(x[order]), atol=1e-5)
