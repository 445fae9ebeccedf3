"""Dropout: rate, scale, gradients and random numbers."""

import pytest
import torch
from torch import Tensor

from regard.layers.dropout import LEVELS, Dropout, random_bytes, set_dropout_enabled

MANY = 200_000


def dropped(p: float, x: Tensor) -> Tensor:
    output: Tensor = Dropout(p).train()(x)
    return output


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_zero_rate_is_p_and_the_mean_is_kept(p: float) -> None:
    x = torch.ones(MANY)
    output = dropped(p, x)
    zero_rate = float((output == 0).double().mean())
    deviation = (p * (1 - p) / MANY) ** 0.5
    assert abs(zero_rate - p) < 1 / (2 * LEVELS) + 5 * deviation
    kept_levels = round(LEVELS * (1 - p))
    assert output.unique().tolist() == pytest.approx([0.0, LEVELS / kept_levels])
    # Scaled by the actual keep rate, so that the mean is exact although p is rounded.
    assert float(output.double().mean()) == pytest.approx(1, abs=5 * deviation / (1 - p))


def test_mask_depends_on_torch_seed() -> None:
    x = torch.ones(64, 33)

    def draw(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropped(0.5, x)

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_every_call_draws_a_new_mask() -> None:
    x = torch.ones(1000)
    assert not torch.equal(dropped(0.5, x), dropped(0.5, x))


def test_gradient_uses_the_same_mask() -> None:
    x = torch.randn(40, 50, dtype=torch.float64, requires_grad=True)
    output = dropped(0.3, x)
    (gradient,) = torch.autograd.grad(output.sum(), x)
    assert torch.equal(gradient == 0, output == 0)
    assert torch.allclose(gradient * x, output)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_dtype_are_kept(dtype: torch.dtype) -> None:
    output = dropped(0.5, torch.ones(3, 5, 7, dtype=dtype))
    assert output.shape == (3, 5, 7)
    assert output.dtype == dtype


def test_eval_mode_drops_nothing() -> None:
    x = torch.randn(100)
    assert torch.equal(Dropout(0.9).eval()(x), x)


@pytest.mark.parametrize("p", [0.0, 0.001])
def test_rates_below_one_level_drop_nothing(p: float) -> None:
    x = torch.randn(1000)
    assert torch.equal(dropped(p, x), x)


def test_rate_near_one_gives_zeros_not_nan() -> None:
    assert torch.equal(dropped(0.999, torch.ones(1000)), torch.zeros(1000))


def test_random_bytes_are_uniform() -> None:
    counts = torch.bincount(random_bytes(LEVELS * 1000).int(), minlength=LEVELS)
    assert len(counts) == LEVELS
    assert (counts - 1000).abs().max() < 6 * 1000**0.5
    assert len(random_bytes(0)) == 0
    assert len(random_bytes(13)) == 13


def test_dropout_can_be_disabled_and_enabled() -> None:
    model = torch.nn.Sequential(Dropout(0.5), Dropout(0.9)).train()
    x = torch.ones(50)
    set_dropout_enabled(model, False)
    assert torch.equal(model(x), x)
    set_dropout_enabled(model, True)
    assert not torch.equal(model(x), x)
