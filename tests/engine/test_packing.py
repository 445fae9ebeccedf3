"""Packed matrices: products in float32 and int8 against torch."""

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


@pytest.mark.parametrize("bits", [32, 8])
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


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("column", [0, 5, 49])  # in a vector of eight, and after the last
def test_quantized_input_that_is_not_finite_gives_nan_in_its_row(
    column: int, number: float
) -> None:
    matrix, x = PackedMap(torch.randn(20, 50), None, 8), torch.randn(4, 50)
    expected = matrix(x)
    x[2, column] = number
    outputs = matrix(x)
    assert outputs[2].isnan().all()
    others = [0, 1, 3]
    assert torch.equal(outputs[others], expected[others])


def test_largest_weights_are_quantized() -> None:
    outputs = PackedMap(torch.full((1, 8), 3e38), None, 8)(torch.full((1, 8), 1e-38))
    torch.testing.assert_close(outputs, torch.tensor([[24.0]]), rtol=0.02, atol=0)
