"""Packed matrices: products in float32, in 8 and in 4 bits against torch."""

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.engine.library import library
from regard.engine.packing import Matrix

pytestmark = pytest.mark.skipif(library() is None, reason="the engine was not built")


class PackedMap:
    """A packed matrix that maps tensors."""

    def __init__(self, weight: Tensor, bias: Tensor | None, bits: int) -> None:
        self.matrix = Matrix(weight.numpy(), None if bias is None else bias.numpy(), bits)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.matrix(np.ascontiguousarray(x.numpy())))


@pytest.mark.parametrize("bits", [32, 8])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 13, 100])
@pytest.mark.parametrize("shape", [(16, 8), (50, 48), (33, 301), (1, 1), (5, 600)])
def test_product_equals_torch_within_rounding(shape: tuple[int, int], rows: int, bits: int) -> None:
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    outputs = PackedMap(weight, bias, bits)(x)
    expected = torch.nn.functional.linear(x.double(), weight.double(), bias.double()).float()
    if bits == 32:
        torch.testing.assert_close(outputs, expected, rtol=1e-5, atol=1e-4)
    else:
        # Rounding changes a weight by at most max|w|/126 and an input by at most range/510:
        # the error of a sum is bounded by these.
        weight_error = weight.abs().amax(1) / 126
        input_error = (x.amax(1) - x.amin(1))[:, None] / 510
        inputs = x.abs().sum(1, keepdim=True)
        weights = weight.abs().sum(1) + weight_error * shape[1]
        bound = (weight_error * inputs + input_error * weights) * 1.001 + 1e-5
        assert ((outputs - expected).abs() <= bound).all()


def test_largest_int8_values_do_not_overflow() -> None:
    weight = torch.stack([torch.ones(64), -torch.ones(64)])
    x = torch.ones(7, 64)
    x[:, 0] = 0
    outputs = PackedMap(weight, None, 8)(x)
    torch.testing.assert_close(outputs, torch.tensor([[63.0, -63.0]]).expand(7, 2))


@pytest.mark.parametrize("bits", [32, 8, 4])
def test_row_does_not_depend_on_batch_size_or_threads(bits: int) -> None:
    matrix = PackedMap(torch.randn(70, 600), torch.randn(70), bits)
    x = torch.randn(101, 600)
    together = matrix(x)
    for count in (1, 2, 3, 5, 6, 7, 50):
        assert torch.equal(matrix(x[:count].contiguous()), together[:count])
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert torch.equal(matrix(x), together)
    torch.set_num_threads(before)


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
@pytest.mark.parametrize("shape", [(16, 8), (50, 48), (33, 301), (1, 1), (5, 600)])
def test_products_of_4_bits(shape: tuple[int, int], rows: int) -> None:
    """Rounding changes a weight by half a step of its group, an input by 1/254 of its highest.

    A group of weights has 16 steps; where its extremes are cut off, the error is smaller in the
    mean, and the extremes change by a tenth of the range.
    """
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    outputs = PackedMap(weight, bias, 4)(x)
    expected = torch.nn.functional.linear(x.double(), weight.double(), bias.double()).float()
    ranges = weight.amax(1) - weight.amin(1)
    inputs, weights = x.abs().sum(1, keepdim=True), weight.abs().sum(1)
    bound = 0.101 * ranges * inputs + x.abs().amax(1, keepdim=True) / 250 * weights + 1e-3
    assert ((outputs - expected).abs() <= bound).all()
    if weight.numel() > 1000:
        error = (outputs - expected).norm() / (expected - bias).norm()
        assert error < 0.15


def test_weights_on_the_steps_of_4_bits_are_exact() -> None:
    weight = torch.randint(0, 16, (40, 96)).float() / 8 - 1
    weight[:, ::32], weight[:, 1::32] = -1, 7 / 8  # the extremes of each group
    x = torch.randint(-127, 128, (9, 96)).float()
    x[:, ::32] = 127
    assert torch.equal(PackedMap(weight, None, 4)(x), x @ weight.t())


def test_weights_beyond_half_precision_have_8_bits() -> None:
    weight, x = torch.full((3, 32), 1e6), torch.ones(2, 32)
    torch.testing.assert_close(PackedMap(weight, None, 4)(x), PackedMap(weight, None, 8)(x))


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("column", [0, 5, 49])  # in a vector of eight, and after the last
def test_quantized_input_that_is_not_finite_gives_nan_in_its_row(
    column: int, number: float, bits: int
) -> None:
    matrix, x = PackedMap(torch.randn(20, 50), None, bits), torch.randn(4, 50)
    expected = matrix(x)
    x[2, column] = number
    outputs = matrix(x)
    assert outputs[2].isnan().all()
    others = [0, 1, 3]
    assert torch.equal(outputs[others], expected[others])


def test_largest_weights_are_quantized() -> None:
    outputs = PackedMap(torch.full((1, 8), 3e38), None, 8)(torch.full((1, 8), 1e-38))
    torch.testing.assert_close(outputs, torch.tensor([[24.0]]), rtol=0.02, atol=0)
