"""Dropout: how much is dropped, what is kept of the rest, and where the chance comes from."""

import pytest
import torch
from torch import Tensor

from regard.layers.dropout import LEVELS, Dropout, random_bytes, set_dropout_enabled

MANY = 200_000


def dropped(p: float, x: Tensor) -> Tensor:
    answer: Tensor = Dropout(p).train()(x)
    return answer


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 0.5, 0.9])
def test_so_many_are_zero_and_the_mean_is_kept(p: float) -> None:
    x = torch.ones(MANY)
    out = dropped(p, x)
    share = float((out == 0).double().mean())
    deviation = (p * (1 - p) / MANY) ** 0.5
    assert abs(share - p) < 1 / (2 * LEVELS) + 5 * deviation
    kept = round(LEVELS * (1 - p))
    assert out.unique().tolist() == pytest.approx([0.0, LEVELS / kept])
    # Scaled by the share that is really kept: right in the mean whatever p was rounded to.
    assert float(out.double().mean()) == pytest.approx(1, abs=5 * deviation / (1 - p))


def test_torchs_seed_decides() -> None:
    x = torch.ones(64, 33)

    def once(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return dropped(0.5, x)

    assert torch.equal(once(1), once(1))
    assert not torch.equal(once(1), once(2))


def test_each_time_is_drawn_anew() -> None:
    x = torch.ones(1000)
    assert not torch.equal(dropped(0.5, x), dropped(0.5, x))


def test_the_gradient_goes_where_the_answer_came_from() -> None:
    x = torch.randn(40, 50, dtype=torch.float64, requires_grad=True)
    out = dropped(0.3, x)
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(gradient == 0, out == 0)
    assert torch.allclose(gradient * x, out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_and_precision_stay(dtype: torch.dtype) -> None:
    out = dropped(0.5, torch.ones(3, 5, 7, dtype=dtype))
    assert out.shape == (3, 5, 7)
    assert out.dtype == dtype


def test_out_of_training_nothing_is_dropped() -> None:
    x = torch.randn(100)
    assert torch.equal(Dropout(0.9).eval()(x), x)


@pytest.mark.parametrize("p", [0.0, 0.001])
def test_less_than_a_byte_can_tell_is_nothing(p: float) -> None:
    x = torch.randn(1000)
    assert torch.equal(dropped(p, x), x)


def test_almost_certain_dropout_leaves_zeros_and_never_nan() -> None:
    assert torch.equal(dropped(0.999, torch.ones(1000)), torch.zeros(1000))


def test_bytes_are_all_alike_in_number() -> None:
    counts = torch.bincount(random_bytes(LEVELS * 1000).int(), minlength=LEVELS)
    assert len(counts) == LEVELS
    assert (counts - 1000).abs().max() < 6 * 1000**0.5
    assert len(random_bytes(0)) == 0
    assert len(random_bytes(13)) == 13


def test_it_can_rest() -> None:
    model = torch.nn.Sequential(Dropout(0.5), Dropout(0.9)).train()
    x = torch.ones(50)
    set_dropout_enabled(model, False)
    assert torch.equal(model(x), x)
    set_dropout_enabled(model, True)
    assert not torch.equal(model(x), x)
