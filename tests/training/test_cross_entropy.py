"""The sliced cross-entropy against torch's: value and gradients."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.training import cross_entropy as module
from regard.training.cross_entropy import cross_entropy

D = 6


def random_inputs(
    n: int, vocabulary: int, dtype: torch.dtype, scale: float = 1.0
) -> tuple[Tensor, Tensor, Tensor]:
    states = (torch.randn(n, D, dtype=dtype) * scale).requires_grad_()
    weight = torch.randn(vocabulary, D, dtype=dtype).requires_grad_()
    return states, weight, torch.randint(vocabulary, (n,))


def sliced(states: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, ...]:
    loss = cross_entropy(states, weight, targets, smoothing)
    return loss.detach(), *torch.autograd.grad(3 * loss, (states, weight))


def reference(
    states: Tensor, weight: Tensor, targets: Tensor, smoothing: float
) -> tuple[Tensor, ...]:
    logits = states @ weight.t()
    loss = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    return loss.detach(), *torch.autograd.grad(3 * loss, (states, weight))


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 40),
    vocabulary=st.integers(1, 30),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
    size=st.integers(1, 300),
)
def test_sliced_cross_entropy_matches_torch_for_any_slice_size(
    n: int, vocabulary: int, smoothing: float, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SLICE", size)
        case = (*random_inputs(n, vocabulary, torch.float64), smoothing)
        for actual, expected in zip(sliced(*case), reference(*case), strict=True):
            assert torch.allclose(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sliced_cross_entropy_matches_torch_in_float32(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 7 * 500)
    case = (*random_inputs(100, 500, torch.float32), smoothing)
    for actual, expected in zip(sliced(*case), reference(*case), strict=True):
        assert torch.allclose(actual, expected, rtol=1e-5, atol=1e-4)


def test_no_targets_give_zero_loss_and_gradients() -> None:
    states, weight, targets = random_inputs(0, 9, torch.float64)
    loss, to_states, to_weight = sliced(states, weight, targets, 0.1)
    assert loss == 0
    assert to_states.shape == (0, D)
    assert torch.equal(to_weight, torch.zeros_like(weight))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e2, 1e4, 1e6])
def test_extreme_logits_give_finite_losses(smoothing: float, scale: float) -> None:
    """A probability that is rounded to zero still has a finite logarithm."""
    case = (*random_inputs(50, 20, torch.float32, scale), smoothing)
    actual, expected = sliced(*case), reference(*case)
    for value, reference_value in zip(actual, expected, strict=True):
        assert value.isfinite().all()
        assert torch.allclose(value, reference_value, rtol=1e-4, atol=1e-4)


def test_a_nan_state_gives_a_nan_loss() -> None:
    states, weight, targets = random_inputs(3, 5, torch.float32)
    with torch.no_grad():
        states[1, 0] = float("nan")
    assert cross_entropy(states, weight, targets, 0.1).isnan()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_products_are_in_bfloat16_under_autocast(
    smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 7 * 500)
    case = (*random_inputs(100, 500, torch.float32), smoothing)
    exact = reference(*case)
    with torch.autocast("cpu", torch.bfloat16):
        actual = sliced(*case)
    for value, exact_value in zip(actual, exact, strict=True):
        assert value.dtype == torch.float32
        assert not torch.equal(value, exact_value)
        assert (value - exact_value).norm() < 0.01 * exact_value.norm()
