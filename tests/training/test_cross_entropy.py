"""The sliced cross-entropy against torch's own: value and gradients."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.training import cross_entropy as module
from regard.training.cross_entropy import cross_entropy

D = 6


def drawn(
    n: int, vocabulary: int, dtype: torch.dtype, scale: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    states = (torch.randn(n, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(vocabulary, D, dtype=dtype).requires_grad_()
    return states, weight, torch.randint(vocabulary, (n,))


def ours(states: Tensor, weight: Tensor, words: Tensor, smoothing: float) -> tuple[Tensor, ...]:
    loss = cross_entropy(states, weight, words, smoothing)
    return loss.detach(), *torch.autograd.grad(3 * loss, (states, weight))


def torchs(states: Tensor, weight: Tensor, words: Tensor, smoothing: float) -> tuple[Tensor, ...]:
    logits = states @ weight.t()
    loss = F.cross_entropy(logits, words, label_smoothing=smoothing, reduction="sum")
    return loss.detach(), *torch.autograd.grad(3 * loss, (states, weight))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 40),
    vocabulary=st.integers(1, 30),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    size=st.integers(1, 300),
)
def test_it_is_torchs_in_whatever_slices(
    n: int, vocabulary: int, smoothing: float, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE", size)
        case = (*drawn(n, vocabulary, torch.float64), smoothing)
        for mine, wanted in zip(ours(*case), torchs(*case), strict=True):
            assert torch.allclose(mine, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_is_torchs_in_single_precision(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 7 * 500)
    case = (*drawn(100, 500, torch.float32), smoothing)
    for mine, wanted in zip(ours(*case), torchs(*case), strict=True):
        assert torch.allclose(mine, wanted, rtol=1e-5, atol=1e-4)


def test_nothing_to_predict_costs_nothing() -> None:
    states, weight, words = drawn(0, 9, torch.float64)
    loss, to_states, to_weight = ours(states, weight, words, 0.1)
    assert loss == 0
    assert to_states.shape == (0, D)
    assert torch.equal(to_weight, torch.zeros_like(weight))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_however_wrong_a_guess_its_price_is_told(smoothing: float, scale: float) -> None:
    """A probability that is rounded to zero still has a logarithm."""
    case = (*drawn(50, 20, torch.float32, scale), smoothing)
    mine, wanted = ours(*case), torchs(*case)
    for one, other in zip(mine, wanted, strict=True):
        assert one.isfinite().all()
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_state_that_is_not_finite_shows_in_the_loss() -> None:
    states, weight, words = drawn(3, 5, torch.float32)
    with torch.no_grad():
        states[1, 0] = float("nan")
    assert cross_entropy(states, weight, words, 0.1).isnan()
